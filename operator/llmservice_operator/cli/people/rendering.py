"""``llmservice render``: the children of an LLMService, and what an edit changes."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from llmservice_operator.api import defaults, names
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.spec import LLMService
from llmservice_operator.cli.people import answers, changes, manifests, rehearsal
from llmservice_operator.cli.people.answers import FINE, NEGATIVE, BadInput, Format, Output
from llmservice_operator.cli.people.changes import Edit
from llmservice_operator.cli.people.manifests import Body
from llmservice_operator.desired import revisions

CLUSTER = "cluster"
SHOWN_FIELDS = 8  # of one child


def render(
    file: Annotated[
        Path, typer.Option("-f", "--filename", help="Manifest of an LLMService; - is standard input.")
    ],
    against: Annotated[
        str | None,
        typer.Option(
            help="An older manifest, or `cluster`: say what the edit changes, and which pods restart."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Which one, where the file holds several.")] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="Default: the manifest's, else default.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="The commit or listing that the lookup finds; default: a placeholder.")
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="With what comes and goes: the lookup's job, the ControllerRevision."),
    ] = False,
    operator_namespace: Annotated[
        str, typer.Option(help="Where the operator is: NetworkPolicies let it in.")
    ] = "llmservice-system",
    output: Output = Format.TEXT,
) -> None:
    """Write the child objects. With --against, exit code 0: the edit restarts nothing; 1: it restarts pods."""
    if revision is not None and not revision.strip():
        raise BadInput("--revision is empty")
    side = Side(_defaults(), operator_namespace, revision)
    body = manifests.service(file, name)
    wanted = manifests.parse(body, namespace)
    if against is None:
        _children(side, manifests.stored(body, namespace), wanted, output, everything=everything)
        raise typer.Exit(FINE)
    edit = _edit(side, manifests.stored(body, namespace), wanted, against)
    _show(edit, wanted, output)
    raise typer.Exit(NEGATIVE if edit.restarts else FINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """What both sides of a comparison are rendered with."""

    defaults: Defaults
    operator_namespace: str
    revision: str | None

    def rehearse(self, body: Body, wanted: LLMService) -> rehearsal.Rehearsed:
        return rehearsal.rehearse(body, wanted, self.defaults, self.operator_namespace, self.revision)


def _defaults() -> Defaults:
    try:
        return defaults.from_json(os.environ.get(defaults.VARIABLE, ""))
    except defaults.DefaultsError as error:
        raise BadInput(str(error)) from None


def _children(side: Side, body: Body, wanted: LLMService, output: Format, *, everything: bool) -> None:
    made = side.rehearse(body, wanted)
    children = [
        child
        for child in made.children
        if everything or not (child["kind"] == revisions.KIND or _is_lookup(wanted, child))
    ]
    for text in made.assumed:
        answers.aside(f"# assumed: {text}")
    if defaults.VARIABLE not in os.environ:
        answers.aside(f"# assumed: no cluster-wide defaults ({defaults.VARIABLE} holds the chart's, as JSON)")
    if output is Format.JSON:
        answers.as_json(children)
    else:
        typer.echo(answers.as_yaml(*children), nl=False)


def _is_lookup(wanted: LLMService, child: Body) -> bool:
    return child["kind"] == "Job" and names.INSTANCE_LABEL in child["metadata"]["labels"]


# --- what changes --------------------------------------------------------------------------------------------
def _edit(side: Side, body: Body, wanted: LLMService, against: str) -> Edit:
    running: int | None = None
    if against == CLUSTER:
        old_body, running = asyncio.run(_from_cluster(wanted))
    else:
        found = manifests.services(Path(against))
        same = [one for one in found if manifests.name_of(one) == wanted.name]
        if not same:
            among = ", ".join(manifests.name_of(one) for one in found)
            raise BadInput(f"{against} holds no {names.KIND} named {wanted.name}, but {among}")
        old_body = manifests.stored(same[0], wanted.namespace)
    try:
        old = manifests.parse(old_body)
    except BadInput as error:
        raise BadInput(f"the old one, {against}: {error}") from None
    body["metadata"] = {**body["metadata"], "uid": old.uid}
    wanted = wanted.model_copy(update={"uid": old.uid})
    before, after = side.rehearse(old_body, old), side.rehearse(body, wanted)
    return changes.between(old, wanted, before.children, after.children, running)


async def _from_cluster(wanted: LLMService) -> tuple[Body, int | None]:
    """The object as it is stored, and how many pods it has."""
    # Imported here: what is offline runs without the libraries that talk to a cluster, and sooner.
    from llmservice_operator.cli.people import cluster

    async with cluster.opened() as there:
        body = await there.service(wanted.namespace, wanted.name)
        if body is None:
            raise BadInput(
                f"the cluster has no {names.KIND} {wanted.namespace}/{wanted.name}: all would be new"
            )
        said: dict[str, Any] = body.get("status") or {}
        return body, said.get("replicas")


def _show(edit: Edit, wanted: LLMService, output: Format) -> None:
    if output is Format.JSON:
        answers.as_json({**dataclasses.asdict(edit), "sentence": edit.sentence})
        return
    for change in edit.children:
        answers.line(f"{change.action:8} {change.kind} {change.name}")
        for field in change.fields[:SHOWN_FIELDS]:
            answers.line(f"           {field}")
        if len(change.fields) > SHOWN_FIELDS:
            answers.line(f"           and {len(change.fields) - SHOWN_FIELDS} more")
    answers.line(edit.sentence)
    hub = wanted.spec.model.source.hf
    if edit.because and hub is not None and not rehearsal.COMMIT.fullmatch(hub.revision):
        answers.line(
            f"{hub.revision} of {hub.repo} is looked up anew with it: if it has moved, the model changes too"
        )
