"""``llmservice convert``: a hand-written Deployment as an LLMService."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from llmservice_operator.cli.people import answers, manifests
from llmservice_operator.cli.people.answers import BadInput, Format, Output
from llmservice_operator.cli.people.conversion import convert as conversion
from llmservice_operator.cli.people.conversion.convert import Converted
from llmservice_operator.cli.people.conversion.notes import Fate
from llmservice_operator.cli.people.conversion.workload import NotConvertible


class Engine(StrEnum):
    VLLM = "vllm"
    BUNDLED = "bundled"


class Cache(StrEnum):
    EXISTING = "existing"
    MANAGED = "managed"


def convert(
    file: Annotated[
        list[Path],
        typer.Option("-f", "--filename", help="Deployment, Service, PVC, HPA…; may be repeated; - is stdin."),
    ],
    name: Annotated[
        str | None,
        typer.Option(help="Name of the LLMService; also which Deployment, where there are several."),
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="vllm: keep the image. bundled: this project's engine.")
    ] = Engine.VLLM,
    cache: Annotated[
        Cache,
        typer.Option(help="existing: use the claim that is there. managed: a new one of its size and class."),
    ] = Cache.EXISTING,
    output: Output = Format.TEXT,
) -> None:
    """Write a vLLM Deployment and what stands beside it as one LLMService. What has no field is listed at the top."""
    bodies = manifests.read(*file)
    try:
        made = conversion.convert(
            bodies, name=name, bundled=engine is Engine.BUNDLED, managed=cache is Cache.MANAGED
        )
    except NotConvertible as error:
        raise BadInput(str(error)) from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise BadInput(
            f"the manifests are not as Kubernetes has them: {type(error).__name__}: {error}"
        ) from None
    manifests.parse(made.body)  # what the operator would refuse is refused here, by name
    if output is Format.JSON:
        answers.as_json({"object": made.body, "notes": [note.plain() for note in made.notes]})
        return
    typer.echo(made.comments() + answers.as_yaml(made.body), nl=False)
    answers.aside(_summary(made))


def _summary(made: Converted) -> str:
    lost = sum(note.fate is Fate.LOST for note in made.notes)
    more = len(made.notes) - lost
    return (
        f"llmservice convert: {len(made.sources)} objects in one; {lost} things have no field, {more} more to know: "
        "see the comments"
    )
