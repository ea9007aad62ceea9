"""``spec.engine``: the image, the planner's settings by name, more flags, environment variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from llmservice_planner import settings
from pydantic import ConfigDict, Field, StringConstraints, create_model

from llmservice_operator.api import cel, checks
from llmservice_operator.api.fields import Argument, ConfigMapKey, Part, Untyped


class EnvVar(Part):
    name: Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^=]+$")] = Field(
        description="Name of the variable."
    )
    value: Annotated[str, StringConstraints(max_length=32768)] | None = Field(
        default=None, description="Value; $(NAME) stands for another variable."
    )
    value_from: Untyped | None = Field(
        default=None,
        description="Where the value comes from, as in a pod: secretKeyRef, configMapKeyRef, fieldRef…",
    )

    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            cel.rule(
                "!(has(self.value) && has(self.valueFrom))",
                "value and valueFrom exclude each other",
                "FieldValueForbidden",
                ".valueFrom",
            )
        )
    )


class ChatTemplate(Part):
    config_map_key_ref: ConfigMapKey = Field(description="Key of a ConfigMap that holds the Jinja template.")


class EngineBase(Part):
    """``spec.engine`` without the settings, which :mod:`llmservice_planner.settings` defines."""

    model_config = ConfigDict(
        json_schema_extra=cel.rules(
            cel.rule(
                "self.runtime == 'Bundled' || has(self.image)",
                "runtime VLLM needs an image of it",
                "FieldValueRequired",
                ".image",
            )
        )
    )

    image: Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^\S+$")] | None = Field(
        default=None, description="Image of the engine, with a tag or a digest; default: the operator's."
    )
    runtime: Literal["Bundled", "VLLM"] = Field(
        default="Bundled",
        description="How the image is called. Bundled: this project's engine. VLLM: an image of vLLM's server, given "
        "its own flags and asked at /health; preStop and the grace period are its drain.",
    )
    args: tuple[Argument, ...] = Field(
        default=(),
        max_length=128,
        description="More flags of `llmservice-engine serve`, after the typed settings; of a repeated flag the last "
        "counts. Flags that the operator sets itself are refused: " + ", ".join(checks.OWNED_FLAGS) + ".",
        json_schema_extra={
            "x-kubernetes-list-type": "atomic",
            **cel.rules(
                cel.rule(
                    f"self.all(argument, !argument.matches('{checks.OWNED_FLAG_PATTERN}'))",
                    f"the operator sets {', '.join(checks.OWNED_FLAGS)} itself (spec.model, spec.expose, spec.rollout)",
                    "FieldValueForbidden",
                )
            ),
        },
    )
    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=128,
        description="Environment variables of the engine's container.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )

    chat_template: ChatTemplate | None = Field(
        default=None, description="Chat template instead of the model's own; mounted as a file."
    )

    def settings(self) -> dict[str, Any]:
        """The typed settings that are given, by the planner's field name."""
        given = {name: getattr(self, name) for name in settings.resource_fields()}
        return {name: value for name, value in given.items() if value is not None}


def _engine_type() -> type[EngineBase]:
    """:class:`EngineBase` with every setting that the resource types by name, each of them optional."""
    fields: dict[str, Any] = {}
    for name, info in settings.resource_fields().items():
        default = info.default
        note = "" if default is None else f" Default: {default}."
        setting: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
        fields[name] = (setting | None, Field(default=None, description=f"{info.description}{note}"))
    return create_model("Engine", __base__=EngineBase, **fields)


if TYPE_CHECKING:
    Engine = EngineBase
else:
    Engine = _engine_type()
