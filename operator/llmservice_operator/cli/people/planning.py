"""``llmservice plan``: does a model fit, in figures."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from llmservice_planner import fit, known, settings
from llmservice_planner.fit import Device, Fit
from llmservice_planner.plan import mib
from llmservice_planner.settings import EngineSettings
from rich.table import Table

from llmservice_operator.api import quantities
from llmservice_operator.api.spec import LLMService
from llmservice_operator.cli.people import answers, manifests
from llmservice_operator.cli.people.answers import FINE, NEGATIVE, BadInput, Format, Output
from llmservice_operator.desired import plan as desired

_TUNED = re.compile(r"-(instruct|it|chat|base|hf)(?=-|$)")  # of the same shape as the model it was tuned from


def plan(
    model: Annotated[
        str | None,
        typer.Argument(help="Folder of a model, its config.json, or the name of a known model."),
    ] = None,
    flags: Annotated[
        list[str] | None, typer.Argument(help="After --: flags of the engine, like --max-model-len 8192.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--filename", help="Manifest of an LLMService, instead of MODEL; - is stdin."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Which one, where the file holds several.")] = None,
    device_memory: Annotated[
        str | None,
        typer.Option(
            help="Memory of one device, like 24Gi; with --cpu the container's memory limit. "
            f"Or one of {', '.join(known.ACCELERATORS)}. With -f: instead of what the spec says."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=1024, help="Devices that share the model.")] = 1,
    cpu: Annotated[bool, typer.Option("--cpu", help="The device is a CPU.")] = False,
    config: Annotated[
        Path | None, typer.Option(help="With -f: the model's config.json, where it is no known model.")
    ] = None,
    model_folder: Annotated[
        Path | None, typer.Option(help="With -f: the model's folder; its files correct the weights.")
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Say whether a model fits, in figures. Exit code 0: it does; 1: it does not; 2: bad input."""
    if file is not None:
        if count != 1 or cpu:
            raise BadInput("--count and --cpu are for MODEL: the manifest says what its devices are")
        if model is not None or flags:
            raise BadInput("with -f the flags are the manifest's: change spec.engine")
        wanted = manifests.parse(manifests.service(file, name))
        judged = of_service(wanted, device_memory, config or model_folder)
    elif model is None:
        raise BadInput("name a model, or a manifest with -f")
    else:
        judged = _of_model(model, flags or (), device_memory, count, cpu=cpu)
    _show(judged, output)
    raise typer.Exit(FINE if fits(judged) else NEGATIVE)


def fits(judged: Fit) -> bool:
    return judged.verdict in ("Fits", "Tight")


def _of_model(model: str, flags: list[str] | tuple[()], memory: str | None, count: int, *, cpu: bool) -> Fit:
    config, weight_bytes = _read(model)
    asked = _settings(model, flags)
    if memory is None:
        raise BadInput("the memory of one device is needed: --device-memory 24Gi, or the name of one")
    if cpu and count != 1:
        raise BadInput(f"--count {count}: a CPU is one device")
    return fit.judge(config, asked, Device(_bytes(memory), count, "cpu" if cpu else "gpu"), weight_bytes)


def _settings(model: str, flags: list[str] | tuple[()]) -> EngineSettings:
    try:
        return settings.parse_args(["--model", model, *flags])
    except settings.SettingsError as error:
        raise BadInput(str(error)) from None


# --- of an LLMService ----------------------------------------------------------------------------------------
def of_service(wanted: LLMService, memory: str | None = None, model: Path | None = None) -> Fit:
    """The verdict that the operator will give, by what the manifest says.

    ``model``: its folder or its config.json, where it is no known one.

    Raises:
        BadInput: the model's shape or the memory of a device is not known; says what to give.
    """
    config, weight_bytes = _read(str(model)) if model is not None else (shape_of(wanted), None)
    if config is None:
        raise BadInput(
            f"{source_of(wanted)} is no known model: give its shape, `llmservice plan -f … --config config.json`"
        )
    device = _device(wanted, memory)
    if device is None:
        where = "spec.accelerator.memoryPerDevice" if gpu(wanted) else "spec.resources.limits.memory"
        raise BadInput(f"{where} is not given: write it there, or say --device-memory 24Gi (or L4, H200…)")
    return fit.judge(config, desired.engine_settings(wanted), device, weight_bytes)


def gpu(wanted: LLMService) -> bool:
    return wanted.spec.accelerator.count > 0


def shape_of(wanted: LLMService) -> Mapping[str, Any] | None:
    """The config of a hub's repository that the planner knows, by its name."""
    hub = wanted.spec.model.source.hf
    if hub is None:
        return None
    models = {name.lower(): config for name, config in known.MODELS.items()}
    asked = hub.repo.rpartition("/")[2].lower()
    return models.get(asked) or models.get(_TUNED.sub("", asked))


def source_of(wanted: LLMService) -> str:
    """The model's source in a word or two."""
    kind, given = next(iter(wanted.source.items()))
    return str(given.get("repo") or given.get("uri") or f"{kind} {given.get('claimName')}")


def _device(wanted: LLMService, memory: str | None) -> Device | None:
    if memory is None:
        return desired.device(wanted)
    count = wanted.spec.accelerator.count
    return Device(_bytes(memory), count or 1, "gpu" if count else "cpu")


# --- reading and showing -------------------------------------------------------------------------------------
def _read(model: str) -> tuple[Mapping[str, Any], int | None]:
    """The model's config.json, and the size of its weight files where they are there."""
    place = Path(model)
    if not place.exists():
        names = {name.lower(): config for name, config in known.MODELS.items()}
        if model.lower() not in names:
            raise BadInput(f"{model} is neither a file nor a known model; known: {', '.join(known.MODELS)}")
        return names[model.lower()], None
    file = place / "config.json" if place.is_dir() else place
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        sizes = [part.stat().st_size for part in _weight_files(file.parent)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{file} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise BadInput(f"{file} holds no JSON object")
    return config, sum(sizes) or None


def _weight_files(folder: Path) -> Iterator[Path]:
    """Those that the index names; else all, but Mistral's second copy of everything in one file."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        yield from (folder / name for name in names)
    else:
        yield from (part for part in folder.glob("*.safetensors") if part.name != "consolidated.safetensors")


def _bytes(memory: str) -> int:
    accelerators = {name.lower(): figure * 2**20 for name, figure in known.ACCELERATORS.items()}
    if memory.lower() in accelerators:
        return accelerators[memory.lower()]
    try:
        found = int(quantities.parse(memory))
    except ValueError as error:
        raise BadInput(f"--device-memory: {error}, or name one of {', '.join(known.ACCELERATORS)}") from None
    if found <= 0:
        raise BadInput(f"--device-memory {memory}: more than 0 is needed")
    return found


def _show(judged: Fit, output: Format) -> None:
    if output is Format.JSON:
        answers.as_json(dataclasses.asdict(judged))
        return
    if judged.required:
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column()
        table.add_column(justify="right")
        for name, figure in (
            ("weights", mib(judged.weights)),
            ("activations", mib(judged.activations)),
            ("KV cache of one sequence" if not fits(judged) else "KV cache", mib(judged.kv_cache)),
            ("available for these", mib(judged.available)),
            ("overhead, taken off before", mib(judged.overhead)),
            ("tokens in the KV cache", f"{judged.kv_tokens:,}"),
        ):
            table.add_row(name, figure)
        answers.table(table)
    answers.line(f"{judged.verdict}: {judged.message}")
