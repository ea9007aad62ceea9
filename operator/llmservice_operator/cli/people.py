"""The commands of ``llmservice``, for people; offline, with no cluster and no engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from llmservice_planner import fit, known, settings
from llmservice_planner.fit import Device, Fit
from llmservice_planner.plan import mib
from rich.console import Console
from rich.table import Table

from llmservice_operator.api import quantities

DOES_NOT_FIT = 1  # exit code; Unknown has it too: nothing says that it fits
BAD_INPUT = 2

# What typer raises for a wrong command line; by its version, of its own or of the package click.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def _commands(context: typer.Context) -> None:
    """Models on Kubernetes: will it fit?"""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def plan(
    model: Annotated[
        str, typer.Argument(help="Folder of a model, its config.json, or the name of a known model.")
    ],
    device_memory: Annotated[
        str,
        typer.Option(
            help="Memory of one device, like 24Gi; with --cpu the container's memory limit. "
            f"Or one of {', '.join(known.ACCELERATORS)}."
        ),
    ],
    count: Annotated[int, typer.Option(min=1, max=1024, help="Devices that share the model.")] = 1,
    cpu: Annotated[bool, typer.Option("--cpu", help="The device is a CPU.")] = False,
    flags: Annotated[
        list[str] | None, typer.Argument(help="After --: flags of the engine, like --max-model-len 8192.")
    ] = None,
) -> None:
    """Say whether a model fits, in figures. Exit code 0: it does; 1: it does not; 2: bad input."""
    config, weight_bytes = _read(model)
    try:
        asked = settings.parse_args(["--model", model, *(flags or ())])
    except settings.SettingsError as error:
        _refuse(str(error))
    if cpu and count != 1:
        _refuse(f"--count {count}: a CPU is one device")
    device = Device(_bytes(device_memory), count, "cpu" if cpu else "gpu")
    judged = fit.judge(config, asked, device, weight_bytes)
    _show(judged)
    raise typer.Exit(0 if judged.verdict in ("Fits", "Tight") else DOES_NOT_FIT)


def main() -> None:
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        said = getattr(error, "format_message", error.__str__)()
        typer.echo(f"llmservice: {said} (`llmservice --help` lists what there is)", err=True)
        code = BAD_INPUT
    sys.exit(code)


def _read(model: str) -> tuple[Mapping[str, Any], int | None]:
    """The model's config.json, and the size of its weight files where they are there."""
    place = Path(model)
    if not place.exists():
        names = {name.lower(): config for name, config in known.MODELS.items()}
        if model.lower() not in names:
            _refuse(f"{model} is neither a file nor a known model; known: {', '.join(known.MODELS)}")
        return names[model.lower()], None
    file = place / "config.json" if place.is_dir() else place
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        sizes = [part.stat().st_size for part in _weight_files(file.parent)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _refuse(f"{file} cannot be read: {error}")
    if not isinstance(config, dict):
        _refuse(f"{file} holds no JSON object")
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
        _refuse(f"--device-memory: {error}, or name one of {', '.join(known.ACCELERATORS)}")
    if found <= 0:
        _refuse(f"--device-memory {memory}: more than 0 is needed")
    return found


def _show(judged: Fit) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if judged.required:
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column()
        table.add_column(justify="right")
        fits = judged.verdict != "DoesNotFit"
        for name, figure in (
            ("weights", mib(judged.weights)),
            ("activations", mib(judged.activations)),
            ("KV cache" if fits else "KV cache of one sequence", mib(judged.kv_cache)),
            ("available for these", mib(judged.available)),
            ("overhead, taken off before", mib(judged.overhead)),
            ("tokens in the KV cache", f"{judged.kv_tokens:,}"),
        ):
            table.add_row(name, figure)
        console.print(table)
    console.print(f"{judged.verdict}: {judged.message}", markup=False)


def _refuse(message: str) -> NoReturn:
    typer.echo(f"llmservice plan: {message}", err=True)
    raise typer.Exit(BAD_INPUT)


if __name__ == "__main__":
    main()
