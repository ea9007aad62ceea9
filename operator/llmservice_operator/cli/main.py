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

from llmservice_operator.api import copies, defaults, names
from llmservice_operator.cli import logs

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
    operator_image: Annotated[
        str | None,
        typer.Option(envvar="OPERATOR_IMAGE", help="This image: that of the jobs that fetch models."),
    ] = None,
    lease_namespace: Annotated[
        str,
        typer.Option(
            envvar="POD_NAMESPACE",
            help="The operator's namespace: of the Lease that elects the leader, and let in by NetworkPolicies.",
        ),
    ] = "default",
    lease_name: Annotated[str, typer.Option(help="Name of that Lease.")] = "llmservice-operator",
    cluster_lease_namespace: Annotated[
        str,
        typer.Option(
            help="Namespace of the Lease that only one cluster-wide install may hold: the same for all of them."
        ),
    ] = names.CLUSTER_LEASE_NAMESPACE,
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
    # Imported here, as in `fetch`: each command runs without the other's libraries, and a job starts a second sooner.
    from llmservice_operator.live.connection import NoCluster
    from llmservice_operator.watch import operator
    from llmservice_operator.watch.probes import PortTaken

    logs.configure(log_level.value, as_json=log_format is Format.JSON)
    try:
        options = operator.Options(
            lease_namespace=lease_namespace,
            lease_name=lease_name,
            identity=identity or f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}",
            defaults=defaults.from_json(os.environ.get(defaults.VARIABLE, ""), engine_image, operator_image),
            health_port=health_port,
            workers=workers,
            kubeconfig=kubeconfig,
            namespaces=tuple(namespace or ()),
            cluster_lease_namespace=cluster_lease_namespace,
        )
        code = asyncio.run(operator.run(options))
    except (defaults.DefaultsError, NoCluster, PortTaken) as error:
        typer.echo(f"llmservice-operator: {error}", err=True)
        code = BAD_START
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # kopf's thread has nothing to save and would only delay the end


@app.command()
def metrics_api(
    name: Annotated[
        str, typer.Option(help="Name of its own Deployment, Service, Secret and ClusterRole.")
    ] = "llmservice-operator-metrics-api",
    namespace: Annotated[str, typer.Option(envvar="POD_NAMESPACE", help="Where they are.")] = "default",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port that the API server calls.")] = 8443,
    health_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Plain port of /healthz, /readyz and /metrics.")
    ] = 8080,
    log_level: Annotated[Level, typer.Option(help="Least level that is logged.")] = Level.INFO,
    log_format: Annotated[Format, typer.Option(help="One JSON object a line, or plain text.")] = Format.TEXT,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Default: the pod's service account, else KUBECONFIG, else ~/.kube/config."),
    ] = None,
) -> None:
    """Serve custom.metrics.k8s.io from the engines' own metrics, for autoscalers. Runs until it is told to stop."""
    from llmservice_operator.live.connection import NoCluster
    from llmservice_operator.metrics_api import process
    from llmservice_operator.metrics_api.listener import PortTaken

    logs.configure(log_level.value, as_json=log_format is Format.JSON)
    options = process.Options(namespace, name, port, health_port, kubeconfig)
    try:
        code = asyncio.run(process.run(options))
    except (NoCluster, PortTaken) as error:
        typer.echo(f"llmservice-operator: {error}", err=True)
        code = BAD_START
    raise typer.Exit(code)


class Action(StrEnum):
    RESOLVE = "resolve"
    COPY = "copy"


@app.command()
def fetch(
    action: Annotated[Action, typer.Argument(help="Look the model up, or bring it into the volume.")],
    source: Annotated[str, typer.Option(help="Where the model is, as JSON: spec.model.source.")],
    folder: Annotated[Path, typer.Option(help="Where the volume is mounted.")],
    report: Annotated[Path, typer.Option(help="File that takes the result, or the failure.")],
    revision: Annotated[str | None, typer.Option(help="Commit that resolve reported.")] = None,
    capacity: Annotated[int | None, typer.Option(min=0, help="Size of the volume in bytes.")] = None,
    token_folder: Annotated[Path, typer.Option(help="Folder with the file `token`.")] = Path(
        copies.TOKEN_FOLDER
    ),
    credentials_folder: Annotated[Path, typer.Option(help="Folder with the S3 store's keys.")] = Path(
        copies.CREDENTIALS_FOLDER
    ),
    progress_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of /progress while copying; 0: none.")
    ] = copies.PROGRESS_PORT,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Files that are fetched at the same time.")] = 4,
    stale_after: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds without a sign of life after which another copier is dead."),
    ] = 30.0,
    attempts: Annotated[int, typer.Option(min=1, help="Tries in a row that bring nothing.")] = 8,
    retry_delay: Annotated[
        float, typer.Option(min=0.0, help="Seconds before the second try; doubles.")
    ] = 1.0,
) -> None:
    """Look a model up or copy it into a volume: what the jobs run. Needs the extra `fetch`."""
    from llmservice_operator.fetch import command

    logs.configure(Level.INFO.value, as_json=False)
    command.main(
        command.Options(
            action=action.value,
            source=source,
            folder=folder,
            report=report,
            revision=revision,
            capacity=capacity,
            token_folder=token_folder,
            credentials_folder=credentials_folder,
            progress_port=progress_port,
            workers=workers,
            stale_after=stale_after,
            attempts=attempts,
            retry_delay=retry_delay,
        )
    )


def main() -> None:
    app()
