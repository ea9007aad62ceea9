"""``llmservice status``: what a cluster says of one object, on one page."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from llmservice_operator.api import names, quantities
from llmservice_operator.cli.people import answers
from llmservice_operator.cli.people.answers import FINE, NEGATIVE, BadInput, Format, Output

EVENTS = 8  # newest ones that are shown

Body = dict[str, Any]


def status(
    name: Annotated[str, typer.Argument(help="Name of the LLMService.")],
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="Default: the kubeconfig's.")
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Say how an LLMService is. Exit code 0: it is Ready; 1: it is not; 2: it is not there, or no cluster is."""
    body, events = asyncio.run(_ask(name, namespace))
    said: Body = body.get("status") or {}
    if output is Format.JSON:
        answers.as_json(said)
    else:
        show(body, events)
    raise typer.Exit(FINE if _ready(body) else NEGATIVE)


async def _ask(name: str, namespace: str | None) -> tuple[Body, Sequence[Mapping[str, Any]]]:
    # Imported here: what is offline runs without the libraries that talk to a cluster, and sooner.
    from llmservice_operator.cli.people import cluster
    from llmservice_operator.live.client import ApiError
    from llmservice_operator.live.events import EventReader

    where = namespace or cluster.namespace()
    async with cluster.opened() as there:
        body = await there.service(where, name)
        if body is None:
            raise BadInput(f"namespace {where} has no {names.KIND} {name}")
        selector = (
            f"{names.INSTANCE_LABEL}={names.label_value(name)},{names.MANAGED_BY_LABEL}={names.MANAGER}"
        )
        try:
            pods = await there.all(f"/api/v1/namespaces/{where}/pods", selector)
        except ApiError:
            pods = []
        found = await EventReader(there.client).about([body, *pods])
        about = {str(one["metadata"]["uid"]): one["metadata"]["name"] for one in pods}
        events = [{**event, "about": about.get(uid, "")} for uid, told in found.items() for event in told]
        return body, newest(events)


def newest(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The last of each that says the same of the same, the newest last."""
    told = {(one.get("reason"), one["about"], one.get("message")): one for one in sorted(events, key=_when)}
    return sorted(told.values(), key=_when)[-EVENTS:]


def _ready(body: Body) -> bool:
    said = body.get("status") or {}
    current = said.get("observedGeneration") == body["metadata"].get("generation")
    found = {one.get("type"): one.get("status") for one in said.get("conditions") or ()}
    return current and found.get("Ready") == "True"


# --- the page ------------------------------------------------------------------------------------------------
def show(body: Body, events: Sequence[Mapping[str, Any]]) -> None:
    said, metadata = body.get("status") or {}, body["metadata"]
    _line(
        f"{names.KIND} {metadata['namespace']}/{metadata['name']}, generation {metadata['generation']}",
    )
    if not said.get("conditions"):
        _line("The operator has not said anything of it yet: is it running?")
        return
    if said.get("observedGeneration") != metadata["generation"]:
        _line(
            f"The operator has seen generation {said.get('observedGeneration')} only: what follows is of that one.",
        )
    answers.line("")
    table = _table("CONDITION", "STATUS", "REASON", "MESSAGE")
    for one in said["conditions"]:
        table.add_row(one["type"], one["status"], one["reason"], Text(one.get("message", "")))
    answers.table(table)
    figures = _table()
    for label, text in _figures(said):
        figures.add_row(label, Text(text))
    if figures.row_count:
        answers.line("")
        answers.table(figures)
    if events:
        answers.line("")
        table = _table("EVENT", "SEEN", "OF", "MESSAGE")
        for event in events:
            seen = _when(event)[:19].replace("T", " ")
            table.add_row(
                str(event.get("reason", "")), seen, str(event.get("about") or "itself"), Text(_words(event))
            )
        answers.table(table)


def _figures(said: Body) -> Iterator[tuple[str, str]]:
    if "replicas" in said:
        counts = [f"{said.get(f'{kind}Replicas', 0)} {kind}" for kind in ("ready", "updated", "available")]
        yield "replicas", f"{said['replicas']}: {', '.join(counts)}"
    if endpoint := said.get("endpoint"):
        yield "endpoint", str(endpoint.get("url"))
        yield "models", ", ".join(endpoint.get("models") or ())
    if model := said.get("model"):
        yield "model", _model(model)
    if memory := said.get("memory"):
        yield "memory", _memory(memory)
    if cache := said.get("cache"):
        yield "cache", _cache(cache)
    if startup := said.get("startup"):
        took = startup.get("lastLoadSeconds")
        last = f"; the last start took {took} s" if took is not None else ""
        yield "start-up", f"may take {startup.get('deadlineSeconds')} s ({startup.get('basis')}){last}"
    if rollout := said.get("rollout"):
        yield "rollout", f"{rollout.get('strategy')}: {rollout.get('reason')}"
    if failure := said.get("lastFailure"):
        code = f", exit code {failure['exitCode']}" if failure.get("exitCode") is not None else ""
        yield (
            "last failure",
            f"{failure.get('time')} {failure.get('pod')}: {failure.get('code')}{code}: {failure.get('message')}",
        )


def _model(model: Body) -> str:
    parts = [
        f"revision {model['revision']}" if model.get("revision") else "",
        f"{quantities.readable(model['weightBytes'])} of weights" if model.get("weightBytes") else "",
        f"{model['parameters']:,} parameters" if model.get("parameters") else "",
        str(model.get("dtype") or ""),
        f"context {model['contextLength']:,} tokens" if model.get("contextLength") else "",
    ]
    return ", ".join(part for part in parts if part)


def _memory(memory: Body) -> str:
    figures = [
        ("weights", "weights"),
        ("KV cache", "kvCache"),
        ("activations", "activations"),
        ("overhead", "overhead"),
        ("available", "available"),
    ]
    said = [f"{label} {_gib(memory[key])}" for label, key in figures if memory.get(key) is not None]
    if memory.get("kvTokens") is not None:
        said.append(f"{memory['kvTokens']:,} tokens of cache")
    return f"{memory.get('verdict')} ({memory.get('source')}): {', '.join(said)}"


def _cache(cache: Body) -> str:
    done, total = cache.get("bytesDone"), cache.get("bytesTotal")
    if done is None or not total:
        return f"claim {cache.get('claimName')}"
    share = f"{quantities.readable(done)} of {quantities.readable(total)} ({done * 100 // total} %)"
    return f"claim {cache.get('claimName')}: {share}"


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def _when(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return max(
        (str(text) for text in times if text), default=str(event["metadata"].get("creationTimestamp") or "")
    )


def _words(event: Mapping[str, Any]) -> str:
    count = event.get("count") or (event.get("series") or {}).get("count") or 1
    return f"{event.get('message', '')}" + (f" (×{count})" if count > 1 else "")


def _table(*columns: str) -> Table:
    made = Table(show_header=bool(columns), box=None, pad_edge=False, header_style="")
    for number, column in enumerate(columns or ("", "")):
        last = number == len(columns or ("", "")) - 1
        made.add_column(column, overflow="fold", no_wrap=False, min_width=None if last else 6, ratio=None)
    return made


def _line(text: str) -> None:
    """A sentence, in as many lines as the page needs."""
    answers.line(textwrap.fill(text, answers.WIDTH, break_long_words=False, break_on_hyphens=False))
