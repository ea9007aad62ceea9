"""``llmservice`` (and ``kubectl llmsvc``), for people: offline where it can be, and never a write to a cluster."""

from __future__ import annotations

import sys

import typer

from llmservice_operator.cli.people import converting, planning, preflighting, rendering, showing
from llmservice_operator.cli.people.answers import BAD_INPUT, Commands

__all__ = ["app", "main"]

# What typer raises for a wrong command line; by its version, of its own or of the package click.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False)
app.command("plan")(planning.plan)
app.command("render")(rendering.render)
app.command("preflight")(preflighting.preflight)
app.command("status")(showing.status)
app.command("convert")(converting.convert)


@app.callback(invoke_without_command=True)
def _commands(context: typer.Context) -> None:
    """Models on Kubernetes: will it fit, what is made of it, what restarts, is it well?"""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        said = getattr(error, "format_message", error.__str__)()
        typer.echo(f"llmservice: {said} (`llmservice --help` lists what there is)", err=True)
        code = BAD_INPUT
    sys.exit(code)
