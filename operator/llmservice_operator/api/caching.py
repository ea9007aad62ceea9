"""``spec.cache``: where a fetched copy of the model is kept, and the job that makes it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from llmservice_operator.api import cel
from llmservice_operator.api.engine import EnvVar
from llmservice_operator.api.fields import DnsName, LabelValue, Part, Quantity, Untyped
from llmservice_operator.api.resources import Resources

Mode = Literal["Managed", "Existing", "Ephemeral", "None"]


class CacheJob(Part):
    """The CPU-only job that looks the model up and copies it."""

    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=64,
        description="Environment variables of the job: proxies, certificates.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    resources: Resources = Field(
        default_factory=Resources,
        description="Compute resources of the job; default: 100m and 256Mi, limit 2Gi.",
    )
    node_selector: dict[str, LabelValue] = Field(
        default_factory=dict, max_length=32, description="Labels of the nodes that the job may run on."
    )
    tolerations: tuple[Untyped, ...] = Field(
        default=(),
        max_length=32,
        description="Taints that the job tolerates, as in a pod.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


def _only(modes: tuple[Mode, ...], field: str) -> dict[str, str]:
    among = ", ".join(f"'{mode}'" for mode in modes)
    return cel.rule(
        f"!has(self.{field}) || self.mode in [{among}]",
        f"only cache.mode {' and '.join(modes)} takes it",
        "FieldValueForbidden",
        f".{field}",
    )


RULES: tuple[tuple[str, tuple[Mode, ...]], ...] = (
    ("claimName", ("Existing",)),
    ("storageClassName", ("Managed", "Ephemeral")),
    ("size", ("Managed", "Ephemeral")),
    ("accessMode", ("Managed",)),
    ("reclaimPolicy", ("Managed",)),
    ("prefetch", ("Managed", "Existing")),
)


class Cache(Part):
    """Copies follow huggingface_hub's layout with the volume as HF_HOME."""

    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            *(_only(modes, field) for field, modes in RULES),
            cel.rule(
                "self.mode != 'Existing' || has(self.claimName)",
                "cache.mode Existing needs the name of your claim",
                "FieldValueRequired",
                ".claimName",
            ),
        )
    )

    mode: Mode = Field(
        default="Managed",
        description="Managed: a claim made by the operator, shared by all replicas and by every service of the "
        "namespace with the same source and revision. Existing: a claim of yours. Ephemeral: a volume of its own for "
        "each pod, gone with it. None: the node's disk, gone with the pod.",
    )
    claim_name: DnsName | None = Field(default=None, description="Your claim, for mode Existing.")
    storage_class_name: DnsName | None = Field(
        default=None, description="Storage class of the claim; default: the operator's, else the cluster's."
    )
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"] | None = Field(
        default=None,
        description="Access mode of the managed claim; default: ReadWriteMany, which replicas on several nodes need.",
    )
    size: Quantity | None = Field(
        default=None,
        description="Size of the claim; default: the copy's bytes and a fifth more, at least 1Gi. It only grows.",
    )
    prefetch: bool | None = Field(
        default=None,
        description="Copy the model by a job before any replica starts, so that no accelerator waits for a download; "
        "default: true. False: each replica sees to the copy itself before its engine starts.",
    )
    reclaim_policy: Literal["Retain", "Delete"] | None = Field(
        default=None,
        description="What becomes of the managed claim when the last service that uses it is deleted; default: "
        "Retain, and a service of the same source finds its copy again.",
    )
    job: CacheJob = Field(
        default_factory=CacheJob, description="The job that looks the model up and copies it."
    )

    def given(self) -> dict[str, Any]:
        """The fields that were given, by their names in the resource."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
