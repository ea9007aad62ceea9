"""The commands of ``llmservice-operator``."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import uuid
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from llmservice_operator.api import defaults
from llmservice_operator.cli import logs
from llmservice_operator.live.connection import NoCluster
from llmservice_operator.watch import operator
from llmservice_operator.watch.probes import PortTaken

BAD_START = 2  # exit code: what was given cannot work

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


@app.callback()
def _commands() -> None:
    """The LLMService operator."""


@app.command()
def run(
    engine_image: Annotated[
        str | None,
        typer.Option(envvar="ENGINE_IMAGE", help="The engine's image where an object names none."),
    ] = None,
    lease_namespace: Annotated[
        str, typer.Option(envvar="POD_NAMESPACE", help="Namespace of the Lease that elects the leader.")
    ] = "default",
    lease_name: Annotated[str, typer.Option(help="Name of that Lease.")] = "llmservice-operator",
    identity: Annotated[
        str | None, typer.Option(envvar="POD_NAME", help="This replica's name in the Lease. Must be unique.")
    ] = None,
    health_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of /healthz, /readyz and /metrics.")
    ] = 8080,
    log_level: Annotated[Level, typer.Option(help="Least level that is logged.")] = Level.INFO,
    log_format: Annotated[Format, typer.Option(help="One JSON object a line, or plain text.")] = Format.TEXT,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Objects that are reconciled at the same time.")
    ] = 8,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Default: the pod's service account, else KUBECONFIG, else ~/.kube/config."),
    ] = None,
    namespace: Annotated[
        list[str] | None, typer.Option(help="Serve this namespace only; may be repeated. Default: all.")
    ] = None,
) -> None:
    """Watch LLMService objects and make what they need. Runs until it is told to stop."""
    logs.configure(log_level.value, as_json=log_format is Format.JSON)
    try:
        options = operator.Options(
            lease_namespace=lease_namespace,
            lease_name=lease_name,
            identity=identity or f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}",
            defaults=defaults.from_json(os.environ.get(defaults.VARIABLE, ""), image=engine_image),
            health_port=health_port,
            workers=workers,
            kubeconfig=kubeconfig,
            namespaces=tuple(namespace or ()),
        )
        code = asyncio.run(operator.run(options))
    except (defaults.DefaultsError, NoCluster, PortTaken) as error:
        typer.echo(f"llmservice-operator: {error}", err=True)
        code = BAD_START
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # kopf's thread has nothing to save and would only delay the end


def main() -> None:
    app()
