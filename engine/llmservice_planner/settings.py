"""The one typed definition of the engine's settings.

The engine's command line, the resource's ``spec.engine`` and the reference page all come from
:class:`EngineSettings`. Names and meanings are vLLM's where both have them, so that a vLLM user's arguments
move over unchanged.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

Dtype = Literal["auto", "bfloat16", "float16", "float32"]
LoadFormat = Literal["auto", "safetensors", "gguf", "dummy"]
WeightFormat = Literal["awq", "compressed-tensors", "fp8", "gguf", "gptq"]
LogLevel = Literal["debug", "info", "warning", "error"]
ToolCallParser = Literal["hermes", "llama3_json", "mistral", "pythonic"]
ReasoningParser = Literal["deepseek_r1", "qwen3"]

# vLLM's spellings; a kernel's name is that of its weights, for the engine chooses the kernel.
_ALIASES = {"half": "float16", "float": "float32", "awq_marlin": "awq", "gptq_marlin": "gptq"}

# Flags that the operator sets itself; `spec.engine.args` may not name them.
OPERATOR_OWNED = frozenset({"model", "served_model_name", "host", "port", "drain_timeout"})


class SettingsError(ValueError):
    """A flag or a value that cannot be used; the message names it and the next move."""


class EngineSettings(BaseModel):
    """Everything that ``llmservice-engine serve`` can be told."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(
        min_length=1, description="Folder of the model in Hugging Face's layout, or a GGUF file."
    )
    served_model_name: tuple[str, ...] = Field(
        default=(),
        description="Names under which clients may ask for the model; default: the value of --model.",
    )
    host: str | None = Field(
        default=None, description="Address to listen on; default: every IPv6 and IPv4 address of the machine."
    )
    port: int = Field(default=8000, ge=1, le=65535, description="TCP port of the HTTP server.")
    dtype: Dtype = Field(
        default="auto",
        description="Type of weights, activations and KV cache. auto: the checkpoint's type; "
        "on a CPU without bf16 instructions float32.",
        json_schema_extra={"resource": True},
    )
    quantization: WeightFormat | None = Field(
        default=None,
        description="How the checkpoint's weights are quantised; default: as it says itself. Another value than that "
        "is refused: weights are not quantised at load.",
        json_schema_extra={"resource": True},
    )
    max_model_len: int | None = Field(
        default=None,
        ge=1,
        le=16_777_216,
        description="Longest sequence in tokens, prompt and output together; default: the model's own limit.",
        json_schema_extra={"resource": True},
    )
    hf_overrides: dict[str, Any] = Field(
        default={},
        description="Fields that replace those of the model's config.json, as JSON, such as "
        '{"max_position_embeddings": 65536} for sequences beyond the model\'s own limit.',
    )
    gpu_memory_utilization: float = Field(
        default=0.9,
        gt=0,
        le=1,
        description="Share of the device's memory for weights, activations and KV cache. "
        "On a CPU: of the cgroup's limit, else of the machine's memory.",
        json_schema_extra={"resource": True},
    )
    block_size: int = Field(
        default=16,
        ge=8,
        le=128,
        multiple_of=8,
        description="Tokens in one block of the KV cache.",
        json_schema_extra={"resource": True},
    )
    max_num_seqs: int = Field(
        default=256,
        ge=1,
        le=4096,
        description="Most sequences in one step.",
        json_schema_extra={"resource": True},
    )
    max_num_batched_tokens: int = Field(
        default=2048,
        ge=1,
        le=1_048_576,
        description="Most tokens in one step, prompts and outputs together.",
        json_schema_extra={"resource": True},
    )
    tensor_parallel_size: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Number of devices that share the model; the bundled engine serves 1 so far. "
        "In the resource: default spec.accelerator.count, at least 1.",
        json_schema_extra={"resource": True},
    )
    load_format: LoadFormat = Field(
        default="auto",
        description="auto: safetensors, else the folder's GGUF file; safetensors, gguf: these only; dummy makes random "
        "weights, for benchmarks.",
    )
    chat_template: str | None = Field(
        default=None,
        description="Jinja chat template, or the path of a file with one; default: the model's own.",
    )
    trust_request_chat_template: bool = Field(
        default=False,
        description="Let a request bring its own chat template; the template is sandboxed, its loops are not bounded.",
    )
    enable_auto_tool_choice: bool = Field(
        default=False,
        description="Let the model decide whether it calls a tool (tool_choice auto); needs --tool-call-parser.",
        json_schema_extra={"resource": True},
    )
    tool_call_parser: ToolCallParser | None = Field(
        default=None,
        description="How the model writes a tool call. hermes: Hermes and Qwen; llama3_json: Llama 3; mistral: "
        "Mistral; pythonic: Llama 4 and others that write Python calls.",
        json_schema_extra={"resource": True},
    )
    reasoning_parser: ReasoningParser | None = Field(
        default=None,
        description="How the model marks its reasoning, which then is reasoning_content instead of content. "
        "deepseek_r1: it reasons first, always; qwen3: where the prompt or the model opens <think>.",
        json_schema_extra={"resource": True},
    )
    generation_config: str = Field(
        default="auto",
        min_length=1,
        description="Where sampling defaults come from. auto: generation_config.json of the model; vllm: nowhere, "
        "the API's own count; else a folder with such a file.",
    )
    override_generation_config: dict[str, Any] = Field(
        default={},
        description='Sampling defaults that replace those, as JSON, such as {"temperature": 0.6}.',
    )
    api_key: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(),
        repr=False,
        description="Keys that clients may send as bearer token; may be repeated. Default: the variable VLLM_API_KEY; "
        "without any, everybody is served. A command line is readable by others: prefer --api-key-file.",
    )
    api_key_file: str | None = Field(
        default=None,
        description="File with one such key a line; it is read again every few seconds, so keys rotate without a "
        "restart.",
    )
    seed: int = Field(default=0, ge=0, description="Seed for requests that bring none.")
    max_logprobs: int = Field(
        default=20,
        ge=0,
        le=1000,
        description="Most likeliest tokens that logprobs, top_logprobs and prompt_logprobs may ask for at each token.",
    )
    drain_timeout: float = Field(
        default=120.0, ge=0, description="Seconds that running requests may take to finish after SIGTERM."
    )
    stall_timeout: float = Field(
        default=120.0,
        gt=0,
        description="Seconds without a step, while work is queued, after which /health turns 503.",
    )
    log_level: LogLevel = Field(default="info", description="Least severe log lines to print.")

    @field_validator("dtype", "quantization", mode="before")
    @classmethod
    def _vllm_spelling(cls, value: object) -> object:
        return _ALIASES.get(value, value) if isinstance(value, str) else value

    @field_validator("override_generation_config", "hf_overrides", mode="before")
    @classmethod
    def _json_object(cls, value: object) -> object:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError as error:
            raise ValueError(f"this is no JSON object: {error}") from None

    @property
    def served_names(self) -> tuple[str, ...]:
        return self.served_model_name or (self.model,)


def flag(field: str) -> str:
    """The command-line spelling of a field: ``max_model_len`` → ``--max-model-len``."""
    return "--" + field.replace("_", "-")


def words(field: str, value: object) -> list[str]:
    """One setting as it stands on a command line: ``["--max-model-len", "4096"]``, ``["--no-enable-…"]``."""
    if isinstance(value, bool):
        return [flag(field) if value else flag(f"no_{field}")]
    return [flag(field), str(value)]


def resource_fields() -> dict[str, FieldInfo]:
    """Fields that ``spec.engine`` types by name; every other one goes through ``spec.engine.args``."""
    return {
        name: info
        for name, info in EngineSettings.model_fields.items()
        if isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("resource")
    }


def flag_given(argument: str) -> str | None:
    """The settings field that one argument names (``--port=9`` → ``port``), or None where it is a value."""
    if not argument.startswith("--"):
        return None
    name = argument[2:].split("=", 1)[0].replace("-", "_")
    positive = EngineSettings.model_fields.get(name.removeprefix("no_"))
    return name.removeprefix("no_") if positive is not None and positive.annotation is bool else name


def parse_args(arguments: Sequence[str]) -> EngineSettings:
    """Read a command line. The last of a repeated flag counts; of --api-key all do.

    Raises:
        SettingsError: an unknown flag (the nearest one is named), or a value out of its range.
    """
    parser = _parser()
    known, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise SettingsError(_unknown(unknown[0]))
    given: dict[str, Any] = {k: v for k, v in vars(known).items() if v is not None}
    positional = given.pop("model_positional", None)
    if positional is not None and given.setdefault("model", positional) != positional:
        raise SettingsError(f"the model is given twice: {positional!r} and --model {given['model']!r}")
    if "model" not in given:
        raise SettingsError("no model given: llmservice-engine serve MODEL [flags]")
    try:
        return EngineSettings(**given)
    except ValidationError as error:
        raise SettingsError(_first_problem(error)) from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add every setting to ``parser``, MODEL as a positional too. Values stay text: pydantic judges them."""
    parser.add_argument("model_positional", nargs="?", metavar="MODEL", help="same as --model")
    for name, info in EngineSettings.model_fields.items():
        about = f"{info.description} [default: {info.default}]".replace("%", "%%")
        how: dict[str, Any] = {"metavar": _metavar(info)}
        if info.annotation is bool:
            how = {"action": argparse.BooleanOptionalAction}
        elif get_origin(info.annotation) is tuple:
            how |= {"nargs": "+", "action": "extend" if name == "api_key" else "store"}
        parser.add_argument(flag(name), dest=name, default=None, help=about, **how)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    add_flags(parser)
    return parser


def _metavar(info: FieldInfo) -> str:
    if get_origin(info.annotation) is Literal:
        return "|".join(str(value) for value in get_args(info.annotation))
    return "VALUE"


def _unknown(argument: str) -> str:
    name = argument.split("=", 1)[0]
    flags = [flag(field) for field in EngineSettings.model_fields]  # never the value: it may be a secret
    nearest = difflib.get_close_matches(name, flags, n=1, cutoff=0.6)
    hint = (
        f"; did you mean {nearest[0]}?" if nearest else "; `llmservice-engine serve --help` lists the flags"
    )
    return f"unknown flag {name}{hint}"


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    field = str(problem["loc"][0]) if problem["loc"] else ""
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not field:
        return message
    given = "" if field == "api_key" else f" {problem['input']!r}"
    return f"{flag(field)}{given}: {message}"
