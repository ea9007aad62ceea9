"""``LLMService.spec``: the one definition from which the CRD is generated and which the operator reads.

Field names are camelCase in the resource. A field that does not work yet does not exist here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from llmservice_operator.api import cel, checks, names
from llmservice_operator.api.engine import Engine
from llmservice_operator.api.errors import InvalidSpec
from llmservice_operator.api.fields import (
    AnnotationValue,
    DnsLabel,
    DnsName,
    Duration,
    LabelValue,
    Part,
    Quantity,
    ServedName,
    Untyped,
)

__all__ = ["InvalidSpec", "LLMService", "LLMServiceSpec", "parse"]

# Where a model may come from. One more is one more field of ModelSource, and its name here.
SOURCES = ("pvc",)

LONGEST_DEADLINE = "24h"


class ClaimSource(Part):
    claim_name: DnsName = Field(
        description="PersistentVolumeClaim in the same namespace that holds the model. Mounted read-only."
    )
    path: Annotated[
        str, StringConstraints(max_length=1024, pattern=r"^([^/$\s][^$]*)?$"), AfterValidator(checks.inside)
    ] = Field(
        default="",
        description="Folder of the model inside the claim, in Hugging Face's layout (config.json, *.safetensors); "
        "default: the claim's root. Relative, without '..'.",
        json_schema_extra=cel.rules(
            cel.rule(
                "!self.split('/').exists(part, part == '..')", "must not contain '..': it stays in the claim"
            )
        ),
    )


class ModelSource(Part):
    model_config = ConfigDict(json_schema_extra=cel.rules(cel.exactly_one(SOURCES)))

    pvc: ClaimSource | None = Field(default=None, description="Weights that are already on a claim.")


class Model(Part):
    source: ModelSource = Field(description="Where the weights come from: exactly one of its fields.")
    served_names: tuple[ServedName, ...] = Field(
        default=(),
        max_length=16,
        description="Names under which clients may ask for the model, instead of the default: the object's own name.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


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


class Resources(Part):
    """One extended resource in both maps must be equal; where only one map has it, it is copied."""

    requests: dict[str, Quantity] = Field(
        default_factory=dict,
        max_length=16,
        description="What one replica is guaranteed: cpu, memory, ephemeral-storage…",
    )
    limits: dict[str, Quantity] = Field(
        default_factory=dict, max_length=16, description="What one replica may take at most."
    )

    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            cel.rule(
                "!has(self.requests) || !has(self.limits) || self.requests.all(name, !name.contains('/') || "
                "!(name in self.limits) || self.requests[name] == self.limits[name] || "
                "int(self.requests[name]) == int(self.limits[name]))",  # 2 and '2' are equal
                "an extended resource (a name with '/') needs equal requests and limits, or only one of them",
                "FieldValueInvalid",
                ".limits",
            )
        )
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


class Rollout(Part):
    drain_timeout: Duration = Field(
        default="120s",
        description="How long running requests may take to finish when a pod ends, up to 24h.",
        json_schema_extra=cel.rules(
            cel.rule(
                f"duration(self) <= duration('{LONGEST_DEADLINE}')", f"must be at most {LONGEST_DEADLINE}"
            )
        ),
    )


class ExposedService(Part):
    name: DnsLabel | None = Field(
        default=None, description="Name of the Service; default: the object's name."
    )
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        default="ClusterIP", description="Service type."
    )
    port: int = Field(default=8000, ge=1, le=65535, description="Port of the Service.")
    labels: dict[str, LabelValue] = Field(
        default_factory=dict,
        max_length=32,
        description="More labels of the Service; the operator's own are refused.",
        json_schema_extra=cel.rules(
            cel.rule(
                f"self.all(key, !(key in {sorted(names.OWNED_LABELS)}))".replace('"', "'"),
                "the operator sets these labels itself: " + ", ".join(sorted(names.OWNED_LABELS)),
                "FieldValueForbidden",
            )
        ),
    )
    annotations: dict[str, AnnotationValue] = Field(
        default_factory=dict,
        max_length=64,
        description="Annotations of the Service, for load balancers and the like.",
        json_schema_extra=cel.rules(
            cel.rule(
                f"self.all(key, !key.startsWith('{names.GROUP}/'))",
                f"annotations under {names.GROUP}/ are the operator's",
                "FieldValueForbidden",
            )
        ),
    )


class Expose(Part):
    service: ExposedService = Field(
        default_factory=ExposedService,
        description="The Service in front of the replicas. Its port is named http.",
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
    suspend: bool = Field(default=False, description="Stops all replicas and keeps everything else.")
    template: Template = Field(
        default_factory=Template,
        description="A PodTemplateSpec that is merged into the rendered one, as kubectl patch does.",
    )

    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            *(
                cel.rule(
                    f"!has(self.accelerator) || !has(self.resources) || !has(self.resources.{side}) || "
                    f"!(self.accelerator.resourceName in self.resources.{side})",
                    "devices are counted by spec.accelerator.count; leave its resourceName out of spec.resources",
                    "FieldValueForbidden",
                    f".resources.{side}",
                )
                for side in ("requests", "limits")
            )
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
    def claim_name(self) -> str:
        """The claim that holds the model."""
        assert self.spec.model.source.pvc is not None, "the only source so far"
        return self.spec.model.source.pvc.claim_name

    @property
    def served_names(self) -> tuple[str, ...]:
        """What clients may ask for: the names that were given, or the object's."""
        return self.spec.model.served_names or (self.name,)

    @property
    def service_name(self) -> str:
        return self.spec.expose.service.name or names.child(self.name)

    @property
    def replicas(self) -> int | None:
        """How many replicas the Deployment is told; None where somebody else tells it."""
        return 0 if self.spec.suspend else self.spec.replicas


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
