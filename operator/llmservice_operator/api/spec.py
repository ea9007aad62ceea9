"""``LLMService.spec``: the one definition from which the CRD is generated and which the operator reads.

Field names are camelCase in the resource. A field that does not work yet does not exist here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from llmservice_operator.api import cel, checks, names
from llmservice_operator.api.caching import RULES, Cache
from llmservice_operator.api.engine import Engine
from llmservice_operator.api.errors import InvalidSpec
from llmservice_operator.api.expose import Expose, Monitoring, NetworkPolicy
from llmservice_operator.api.fields import Duration, Part, Quantity, Untyped
from llmservice_operator.api.resources import Resources
from llmservice_operator.api.scaling import LONGEST_DEADLINE, Autoscaling, Availability, Rollout
from llmservice_operator.api.source import SOURCES, Model

__all__ = ["InvalidSpec", "LLMService", "LLMServiceSpec", "parse"]


class Accelerator(Part):
    count: int = Field(
        default=1, ge=0, le=64, description="Devices of one replica; 0: the model runs on the CPU."
    )
    resource_name: Annotated[
        str,
        StringConstraints(
            min_length=3, max_length=253, pattern=r"^[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-A-Za-z0-9_.]*$"
        ),
    ] = Field(
        default="nvidia.com/gpu",
        description="Extended resource that counts the devices: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu…",
    )
    memory_per_device: Quantity | None = Field(
        default=None,
        description="Memory of one device (80Gi), from which the verdict on memory is made before one is taken. On the "
        "CPU it is resources.limits.memory.",
    )
    fit_policy: Literal["Warn", "Enforce", "Ignore"] = Field(
        default="Warn",
        description="What a model that does not fit gets. Warn: the condition MemoryFits says so. Enforce: no pods "
        "either. Ignore: no verdict.",
    )


class Startup(Part):
    deadline: Annotated[Duration, AfterValidator(checks.some_time)] | None = Field(
        default=None,
        description="How long one start may take before the engine is restarted, up to 24h; replaces the derived "
        "one: 60s plus the claim's size over assumedBytesPerSecond times safetyFactor.",
        json_schema_extra=cel.rules(
            cel.rule(
                f"duration(self) >= duration('1s') && duration(self) <= duration('{LONGEST_DEADLINE}')",
                f"must be between 1s and {LONGEST_DEADLINE}",
            )
        ),
    )
    assumed_bytes_per_second: int = Field(
        default=100_000_000,
        ge=1_000_000,
        le=1_000_000_000_000,
        description="Rate at which the weights are read, for the derived deadline.",
    )
    safety_factor: float = Field(
        default=2.0, ge=1, le=100, description="Factor on the reading time, for the derived deadline."
    )


class Template(Part):
    metadata: Untyped = Field(default_factory=dict, description="More labels and annotations of the pods.")
    spec: Untyped = Field(
        default_factory=dict,
        description="Merged by name into the rendered pod spec: sidecars, initContainers, volumes, volumeMounts, "
        "nodeSelector, affinity, tolerations, securityContext… The engine's container is named engine.",
    )


class LLMServiceSpec(Part):
    """What is wanted: a model, on how many replicas of what size."""

    model: Model = Field(description="The model and the names it is served under.")
    engine: Engine = Field(
        default_factory=Engine,
        description="The inference engine. Its settings are the camelCase of its flags.",
    )
    accelerator: Accelerator = Field(
        default_factory=Accelerator,
        description="The devices of one replica.",
        json_schema_extra={"default": {}},  # so that the rules below always find its resourceName
    )
    resources: Resources = Field(
        default_factory=Resources,
        description="Compute resources of one replica's engine. Devices are counted by spec.accelerator.",
    )
    replicas: int | None = Field(
        default=None,
        ge=0,
        le=1000,
        description="Number of replicas. Where it is left out the operator never writes the Deployment's, so an "
        "autoscaler may own it; it begins at 1.",
    )
    startup: Startup = Field(default_factory=Startup, description="How long a start may take.")
    rollout: Rollout = Field(default_factory=Rollout, description="How replicas are replaced.")
    expose: Expose = Field(default_factory=Expose, description="How clients reach the model.")
    cache: Cache | None = Field(
        default=None,
        description="Where the copy of a model from the hub or a bucket is kept; default: a managed claim.",
    )
    autoscaling: Autoscaling | None = Field(
        default=None, description="Scale the replicas by load; replicas is then left out."
    )
    availability: Availability = Field(
        default_factory=Availability, description="What voluntary disruptions may take."
    )
    network_policy: NetworkPolicy = Field(
        default_factory=NetworkPolicy, description="Who may reach the engines, and whom they may reach."
    )
    monitoring: Monitoring = Field(
        default_factory=Monitoring, description="How Prometheus finds the engines."
    )
    suspend: bool = Field(default=False, description="Stops all replicas and keeps everything else.")
    template: Template = Field(
        default_factory=Template,
        description="A PodTemplateSpec that is merged into the rendered one, as kubectl patch does.",
    )

    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            cel.rule(
                "!has(self.cache) || !has(self.model.source.pvc)",
                "cache is for sources hf and s3: weights on a claim of yours need no copy",
                "FieldValueForbidden",
                ".cache",
            ),
            cel.rule(
                "!has(self.replicas) || !has(self.autoscaling)",
                "replicas is the autoscaler's; use autoscaling.minReplicas and maxReplicas",
                "FieldValueForbidden",
                ".replicas",
            ),
            *(
                cel.rule(
                    f"!has(self.accelerator) || !has(self.resources) || !has(self.resources.{side}) || "
                    f"!(self.accelerator.resourceName in self.resources.{side})",
                    "devices are counted by spec.accelerator.count; leave its resourceName out of spec.resources",
                    "FieldValueForbidden",
                    f".resources.{side}",
                )
                for side in ("requests", "limits")
            ),
        )
    )


class LLMService(BaseModel):
    """One object as the operator reads it."""

    model_config = ConfigDict(frozen=True)

    name: str
    namespace: str
    uid: str
    generation: int
    spec: LLMServiceSpec

    @property
    def source(self) -> dict[str, Any]:
        """The model's source as the resource writes it, with one key: hf, pvc or s3."""
        return self.spec.model.source.plain()

    @property
    def cache(self) -> Cache | None:
        """How the copy is kept; None where the weights are on a claim already."""
        return None if self.spec.model.source.pvc is not None else self.spec.cache or Cache()

    @property
    def claim_name(self) -> str | None:
        """The claim that holds the model or its copy; None where each pod has a volume of its own."""
        if self.spec.model.source.pvc is not None:
            return self.spec.model.source.pvc.claim_name
        cache = self.cache
        assert cache is not None, "only a pvc has none"
        if cache.mode == "Existing":
            return cache.claim_name
        return names.cache(self.source) if cache.mode == "Managed" else None

    @property
    def prefetches(self) -> bool:
        """A job copies the model before any replica starts."""
        return self.cache is not None and self.claim_name is not None and self.cache.prefetch is not False

    @property
    def served_names(self) -> tuple[str, ...]:
        """What clients may ask for: the names that were given, else the hub's repository and the object's."""
        hub = self.spec.model.source.hf
        return self.spec.model.served_names or (*((hub.repo,) if hub is not None else ()), self.name)

    @property
    def service_name(self) -> str:
        return self.spec.expose.service.name or names.child(self.name)

    @property
    def replicas(self) -> int | None:
        """How many replicas the Deployment is told; None where somebody else tells it."""
        return 0 if self.spec.suspend else self.spec.replicas

    @property
    def least_replicas(self) -> int | None:
        """How many replicas are wanted at least; None where the Deployment says."""
        if self.spec.autoscaling is not None and not self.spec.suspend:
            return self.spec.autoscaling.min_replicas
        return self.replicas

    @property
    def devices(self) -> int:
        """Devices of one replica that share the model; 1 on the CPU."""
        return self.spec.engine.settings().get("tensor_parallel_size") or max(1, self.spec.accelerator.count)


def parse(body: Mapping[str, Any]) -> LLMService:
    """Read an object as the API server sends it.

    Raises:
        InvalidSpec: the spec cannot be served; carries the field's path and what to do.
    """
    try:
        wanted = LLMServiceSpec.model_validate(body.get("spec") or {})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise InvalidSpec(checks.path(problem["loc"]), checks.message(problem)) from None
    checks.one_source(wanted.model.source, SOURCES)
    checks.resources(wanted.resources.requests, wanted.resources.limits, wanted.accelerator.resource_name)
    checks.arguments(wanted.engine)
    if wanted.cache is not None:
        source = next(iter(wanted.model.source.plain()))
        checks.cache(source, wanted.cache.mode, wanted.cache.given(), RULES)
    if wanted.autoscaling is not None:
        checks.scaling(wanted.autoscaling, wanted.replicas)
    checks.rollout(wanted.rollout)
    if wanted.model.token_secret_ref is not None and wanted.model.source.hf is None:
        raise InvalidSpec("spec.model.tokenSecretRef", "a token is for the hub: only source.hf takes one")
    checks.service_labels(wanted.expose.service.labels)
    checks.template(wanted.template.metadata, wanted.template.spec, wanted.rollout.drain_timeout)
    metadata = body["metadata"]
    return LLMService(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata["generation"],
        spec=wanted,
    )
