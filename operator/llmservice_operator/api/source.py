"""``spec.model``: where the weights come from, the token to get them with, and the names they are served under."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints

from llmservice_operator.api import cel, checks
from llmservice_operator.api.fields import DnsName, Part, SecretKey, ServedName, Url

# Where a model may come from. One more is one more field of ModelSource, and its name here.
SOURCES = ("hf", "pvc", "s3")

FolderName = Annotated[
    str, StringConstraints(max_length=1024, pattern=r"^([^/$\s][^$]*)?$"), AfterValidator(checks.inside)
]
_INSIDE = cel.rules(
    cel.rule("!self.split('/').exists(part, part == '..')", "must not contain '..': it stays in the claim")
)


class HubSource(Part):
    repo: Annotated[
        str,
        StringConstraints(
            min_length=1, max_length=193, pattern=r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$"
        ),
    ] = Field(description="Repository on the hub: organisation/name.")
    revision: Annotated[
        str, StringConstraints(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9][\w./-]*$")
    ] = Field(
        default="main",
        description="Branch, tag or commit. A branch is resolved to a commit once for each change of the spec.",
    )
    files: tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...] = Field(
        default=(),
        max_length=64,
        description="Patterns of the files to fetch (*.safetensors); default: what an engine needs.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    endpoint: Url | None = Field(
        default=None, description="URL of a mirror that speaks the hub's protocol; default: the hub."
    )


class ClaimSource(Part):
    claim_name: DnsName = Field(
        description="PersistentVolumeClaim in the same namespace that holds the model. Mounted read-only."
    )
    path: FolderName = Field(
        default="",
        description="Folder of the model inside the claim, in Hugging Face's layout (config.json, *.safetensors); "
        "default: the claim's root. Relative, without '..'.",
        json_schema_extra=_INSIDE,
    )


class SecretName(Part):
    name: DnsName = Field(description="Name of a Secret in the same namespace.")


class BucketSource(Part):
    uri: Annotated[
        str,
        StringConstraints(max_length=1024, pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^?#\s]*)?$"),
    ] = Field(description="Bucket and prefix of the model's folder: s3://bucket/path/of/model.")
    endpoint: Url | None = Field(default=None, description="URL of an S3-compatible store; default: AWS.")
    credentials_secret_ref: SecretName | None = Field(
        default=None,
        description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN, AWS_REGION); "
        "default: whatever the pod's identity gives.",
    )


class ModelSource(Part):
    model_config = ConfigDict(json_schema_extra=cel.rules(cel.exactly_one(SOURCES)))

    hf: HubSource | None = Field(default=None, description="A repository of the Hugging Face hub.")
    pvc: ClaimSource | None = Field(default=None, description="Weights that are already on a claim.")
    s3: BucketSource | None = Field(default=None, description="A folder of an S3-compatible store.")

    def plain(self) -> dict[str, Any]:
        """As the resource writes it, defaults included: what a copy's job and folder are made from."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Model(Part):
    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            cel.rule(
                "!has(self.tokenSecretRef) || has(self.source.hf)",
                "a token is for the hub: only source.hf takes one",
                "FieldValueForbidden",
                ".tokenSecretRef",
            )
        )
    )

    source: ModelSource = Field(description="Where the weights come from: exactly one of its fields.")
    token_secret_ref: SecretKey | None = Field(
        default=None,
        description="Hub token for private and gated repositories; mounted as a file where it is needed.",
    )
    served_names: tuple[ServedName, ...] = Field(
        default=(),
        max_length=16,
        description="Names under which clients may ask for the model; default: the hub's repository where there is "
        "one, and the object's own name.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
