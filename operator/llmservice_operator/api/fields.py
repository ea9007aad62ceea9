"""The kinds of value that fields of the spec hold, each with its bounds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

from llmservice_operator.api import checks, durations, quantities

DnsName = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
DnsLabel = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
]
ServedName = Annotated[
    str, StringConstraints(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$")
]
Argument = Annotated[str, StringConstraints(max_length=8192)]
Quantity = Annotated[
    int | str,
    AfterValidator(checks.quantity),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": quantities.PATTERN,
        }
    ),
]
Duration = Annotated[
    str,
    StringConstraints(min_length=2, max_length=16, pattern=durations.PATTERN),
    AfterValidator(checks.duration),
]
IntOrPercent = Annotated[
    int | str,
    AfterValidator(checks.int_or_percent),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": 0,
            "pattern": checks.PERCENT,
        }
    ),
]
Url = Annotated[str, StringConstraints(max_length=512, pattern=r"^https?://[^\s?#]+$")]
LabelValue = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
]
AnnotationValue = Annotated[str, StringConstraints(max_length=4096)]
Untyped = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]  # a part of another kind's schema, judged by the API server when it is applied


class Part(BaseModel):
    """One object inside the spec."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


FileName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]


class SecretKey(Part):
    name: DnsName = Field(description="Name of a Secret in the same namespace.")
    key: FileName = Field(default="token", description="Key in it.")


class ConfigMapKey(Part):
    name: DnsName = Field(description="Name of a ConfigMap in the same namespace.")
    key: FileName = Field(description="Key in it.")
