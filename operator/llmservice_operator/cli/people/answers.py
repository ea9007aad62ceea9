"""How the commands answer: text for people or JSON for scripts, an exit code, and one line for what cannot be read."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

FINE = 0  # exit codes
NEGATIVE = 1  # the verdict is no
BAD_INPUT = 2  # what was given cannot be read or asked; nothing is written to standard output

WIDTH = 100  # columns of a page; a narrower terminal has its own


class BadInput(Exception):
    """What was given cannot be used; the message is one line that says what to change."""


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


Output = Annotated[Format, typer.Option("-o", "--output", help="json: for scripts.")]


class Commands(TyperGroup):
    """Turns :class:`BadInput` into one line on standard error and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BadInput as error:
            said = " ".join(str(error).split())
            typer.echo(f"llmservice {ctx.invoked_subcommand}: {said}", err=True)
            raise typer.Exit(BAD_INPUT) from None


def page() -> Console:
    """Where tables go: at most :data:`WIDTH` columns, also into a pipe."""
    found = Console(highlight=False)
    found.width = min(found.width, WIDTH) if sys.stdout.isatty() else WIDTH
    return found


def table(made: Table, console: Console | None = None) -> None:
    """A table without the blanks that only fill its last column."""
    console = console or page()
    with console.capture() as captured:
        console.print(made)
    typer.echo("\n".join(row.rstrip() for row in captured.get().splitlines()))


def line(text: str) -> None:
    """One line of whatever length."""
    typer.echo(text)


def aside(text: str) -> None:
    """What a person should know and a pipe should not get."""
    typer.echo(text, err=True)


def as_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2, default=str))


class _Dumper(yaml.SafeDumper):
    """Lists indented below their key, as Kubernetes' own manifests are; nothing by reference."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def as_yaml(*documents: Any) -> str:
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=WIDTH + 10, allow_unicode=True)
