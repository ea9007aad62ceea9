"""``spec.expose``, ``spec.networkPolicy`` and ``spec.monitoring``: who reaches the model, and who watches it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from llmservice_operator.api import cel, names
from llmservice_operator.api.fields import AnnotationValue, DnsLabel, DnsName, LabelValue, Part, Untyped


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


class ParentRef(Part):
    name: DnsName = Field(description="Name of the Gateway.")
    namespace: DnsLabel | None = Field(default=None, description="Its namespace; default: the object's.")
    section_name: DnsName | None = Field(default=None, description="Its listener; default: every one.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Port of its listener.")


class Route(Part):
    parent_refs: tuple[ParentRef, ...] = Field(
        min_length=1,
        max_length=8,
        description="Gateways that route to the model.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    hostnames: tuple[
        Annotated[
            str,
            StringConstraints(
                min_length=1, max_length=253, pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
            ),
        ],
        ...,
    ] = Field(
        default=(),
        max_length=16,
        description="Host names under which it is reached; default: the Gateway's.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class Expose(Part):
    service: ExposedService = Field(
        default_factory=ExposedService,
        description="The Service in front of the replicas. Its port is named http.",
    )
    route: Route | None = Field(
        default=None, description="An HTTPRoute to the Service, where the cluster has the Gateway API."
    )


class NetworkPolicy(Part):
    enabled: bool = Field(
        default=False,
        description="Let only the peers of `from`, the object's own namespace and the operator reach the engines, and "
        "let the engines reach nothing but names and each other.",
    )
    from_: tuple[Untyped, ...] = Field(
        default=(),
        alias="from",
        max_length=32,
        description="Who else may ask: peers as in a NetworkPolicy (podSelector, namespaceSelector, ipBlock).",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class Monitoring(Part):
    pod_monitor: Literal["Auto", "Enabled", "Disabled"] = Field(
        default="Auto",
        description="A PodMonitor for the Prometheus operator. Auto: where the cluster has the kind.",
    )
    labels: dict[str, LabelValue] = Field(
        default_factory=dict,
        max_length=32,
        description="Labels of the PodMonitor, by which a Prometheus selects it.",
    )
