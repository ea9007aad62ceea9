"""``resources`` of a container."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from llmservice_operator.api import cel
from llmservice_operator.api.fields import Part, Quantity


class Resources(Part):
    """One extended resource in both maps must be equal; where only one map has it, it is copied."""

    requests: dict[str, Quantity] = Field(
        default_factory=dict,
        max_length=16,
        description="What one pod is guaranteed: cpu, memory, ephemeral-storage…",
    )
    limits: dict[str, Quantity] = Field(
        default_factory=dict, max_length=16, description="What one pod may take at most."
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
