"""``spec.autoscaling``, ``spec.rollout`` and ``spec.availability``: how many replicas, and how they are replaced."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from llmservice_operator.api import cel
from llmservice_operator.api.fields import Duration, IntOrPercent, Part, Untyped, Url

LONGEST_DEADLINE = "24h"
Metric = Literal["WaitingRequests", "InFlightRequests", "KVCachePercent"]
Backend = Literal["HPA", "KEDA", "External"]

# What one replica may have on average before another is added.
TARGETS: dict[Metric, int] = {"WaitingRequests": 8, "InFlightRequests": 64, "KVCachePercent": 80}


class ScalingPolicy(Part):
    type: Literal["Pods", "Percent"] = Field(description="What value counts.")
    value: int = Field(
        ge=1, le=100_000, description="At most so many pods, or per cent of them, in one period."
    )
    period_seconds: int = Field(ge=1, le=1800, description="Length of the period in seconds.")


class ScalingRules(Part):
    stabilization_window_seconds: int | None = Field(
        default=None, ge=0, le=3600, description="Seconds over which the calmest recommendation counts."
    )
    select_policy: Literal["Max", "Min", "Disabled"] | None = Field(
        default=None, description="Which policy counts; Disabled: no scaling in this direction."
    )
    policies: tuple[ScalingPolicy, ...] = Field(
        default=(),
        max_length=8,
        description="How fast.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class Behavior(Part):
    scale_up: ScalingRules | None = Field(default=None, description="Rules for more replicas.")
    scale_down: ScalingRules | None = Field(default=None, description="Rules for fewer replicas.")


class Keda(Part):
    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            cel.rule(
                "has(self.prometheusAddress) != has(self.triggers)",
                "exactly one is needed: prometheusAddress (the query is made from metric and target) or triggers",
                "FieldValueRequired",
            )
        )
    )

    prometheus_address: Url | None = Field(
        default=None,
        description="URL of the Prometheus that scrapes the engines; the trigger is made for it.",
    )
    triggers: tuple[Untyped, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=16,
        description="Triggers as in a ScaledObject, instead of metric and target.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class Autoscaling(Part):
    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            cel.rule(
                "self.minReplicas <= self.maxReplicas",
                "must not be more than maxReplicas",
                path=".minReplicas",
            ),
            cel.rule(
                "self.minReplicas > 0 || self.backend == 'External' || (has(self.keda) && has(self.keda.triggers))",
                "0 needs backend External, or KEDA with triggers of yours: our metrics come from the pods, and with "
                "none of them nothing would wake it",
                "FieldValueForbidden",
                ".minReplicas",
            ),
            cel.rule(
                "(self.backend == 'KEDA') == has(self.keda)",
                "backend KEDA needs keda, and only it takes it",
                "FieldValueRequired",
                ".keda",
            ),
        )
    )

    min_replicas: int = Field(default=1, ge=0, le=1000, description="Least replicas.")
    max_replicas: int = Field(ge=1, le=1000, description="Most replicas.")
    metric: Metric = Field(
        default="WaitingRequests",
        description="What is kept at the target. WaitingRequests: requests that wait for their first step. "
        "InFlightRequests: waiting and running together, steadier. KVCachePercent: use of the KV cache.",
    )
    target: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Average of one replica that is aimed at; default: "
        + ", ".join(f"{target} {metric}" for metric, target in TARGETS.items())
        + ".",
    )
    behavior: Behavior | None = Field(default=None, description="How fast, as in a HorizontalPodAutoscaler.")
    backend: Backend = Field(
        default="HPA",
        description="HPA: a HorizontalPodAutoscaler on the Deployment. KEDA: a ScaledObject. External: something of "
        "yours scales the Deployment; the operator leaves its replicas alone.",
    )
    keda: Keda | None = Field(default=None, description="For backend KEDA: where its figure comes from.")

    @property
    def goal(self) -> int:
        return self.target or TARGETS[self.metric]


class Rollout(Part):
    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            cel.rule(
                "!has(self.maxSurge) || !has(self.maxUnavailable) || "
                "!(string(self.maxSurge) in ['0', '0%'] && string(self.maxUnavailable) in ['0', '0%'])",
                "maxSurge and maxUnavailable must not both be 0: no replica could ever be replaced",
                "FieldValueInvalid",
                ".maxUnavailable",
            ),
            cel.rule(
                "(!has(self.maxSurge) && !has(self.maxUnavailable)) || self.strategy == 'Surge'",
                "maxSurge and maxUnavailable are for strategy Surge",
                "FieldValueForbidden",
                ".maxSurge",
            ),
        )
    )

    strategy: Literal["Auto", "Surge", "Recycle", "Recreate"] = Field(
        default="Auto",
        description="Surge: a new replica before an old one goes (needs free devices). Recycle: one by one in place. "
        "Recreate: all old ones go first. Auto: Surge while there is room for a spare replica, else Recycle; "
        "status.rollout says which and why.",
    )
    max_surge: IntOrPercent | None = Field(
        default=None, description="Replicas beyond the wanted ones, for strategy Surge; default: 1."
    )
    max_unavailable: IntOrPercent | None = Field(
        default=None, description="Replicas that may be missing, for strategy Surge; default: 0."
    )
    min_ready: Duration = Field(
        default="0s", description="How long a replica must be ready before it counts as available."
    )
    drain_timeout: Duration = Field(
        default="120s",
        description="How long running requests may take to finish when a pod ends, up to 24h.",
        json_schema_extra=cel.rules(
            cel.rule(
                f"duration(self) <= duration('{LONGEST_DEADLINE}')", f"must be at most {LONGEST_DEADLINE}"
            )
        ),
    )


class Availability(Part):
    max_unavailable: IntOrPercent = Field(
        default=1,
        description="Replicas that a node's drain may take at once (PodDisruptionBudget, with more than 1 replica).",
    )
