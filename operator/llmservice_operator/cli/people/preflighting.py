"""``llmservice preflight``: what would go wrong, before it is applied."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from llmservice_operator.api import names
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.spec import LLMService
from llmservice_operator.cli.people import answers, findings, manifests, rehearsal
from llmservice_operator.cli.people.answers import FINE, NEGATIVE, BadInput, Format, Output
from llmservice_operator.cli.people.findings import Finding, Level

Body = dict[str, Any]


def preflight(
    file: Annotated[
        Path, typer.Option("-f", "--filename", help="Manifest of LLMServices; - is standard input.")
    ],
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="Default: the manifest's, else the kubeconfig's.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no cluster.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Check a manifest, and the cluster that KUBECONFIG names for it. Exit code 0: nothing fails; 1: something does."""
    found: dict[str, list[Finding]] = {}
    for body in manifests.services(file):
        label = manifests.name_of(body)
        if not label:
            raise BadInput(f"{file}: a {names.KIND} has no metadata.name")
        found[label], wanted = findings.offline(body)
        if wanted is not None and not offline:
            found[label] += asyncio.run(_ask(body, wanted, namespace))
    _show(found, output)
    failed = any(one.level is Level.FAIL for told in found.values() for one in told)
    raise typer.Exit(NEGATIVE if failed else FINE)


async def _ask(body: Body, wanted: LLMService, namespace: str | None) -> list[Finding]:
    # Imported here: what is offline runs without the libraries that talk to a cluster, and sooner.
    from llmservice_operator.cli.people import asking, cluster

    where = namespace or body["metadata"].get("namespace") or cluster.namespace()
    metadata = {
        key: value for key, value in body["metadata"].items() if key not in ("uid", "resourceVersion")
    }
    sent = {**body, "metadata": {**metadata, "namespace": where}}
    sent.pop("status", None)
    there_is = manifests.stored(sent)
    wanted = manifests.parse(there_is)
    children = rehearsal.rehearse(there_is, wanted, Defaults(), "").children
    try:
        async with cluster.opened() as there:
            return await asking.everything(there, sent, wanted, children)
    except BadInput as error:
        raise BadInput(f"{error}; --offline checks the manifest alone") from None


def _show(found: dict[str, list[Finding]], output: Format) -> None:
    if output is Format.JSON:
        told = {name: [dataclasses.asdict(one) for one in these] for name, these in found.items()}
        answers.as_json(told)
        return
    for name, these in found.items():
        if len(found) > 1:
            answers.line(f"{names.KIND} {name}")
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold", max_width=36)
        table.add_column(overflow="fold")
        for one in these:
            table.add_row(one.level.value, Text(one.about), Text(one.sentence))
        answers.table(table)
