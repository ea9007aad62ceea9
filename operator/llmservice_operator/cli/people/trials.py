"""A dry run of each child that the operator would make, as far as the person may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmservice_operator.api import names
from llmservice_operator.api.spec import LLMService
from llmservice_operator.cli.people.cluster import Cluster
from llmservice_operator.cli.people.findings import Finding, fail, ok, warn
from llmservice_operator.live import kinds, ownership
from llmservice_operator.live.client import ApiError
from llmservice_operator.live.ownership import Owner

Body = dict[str, Any]


def untold(about: str, error: ApiError) -> Finding:
    return warn(about, f"cannot be told: {error.message}")


async def children(there: Cluster, wanted: LLMService, rendered: Sequence[Body]) -> list[Finding]:
    """What the API server says of each: a finding for every one that it does not take, and one for the others."""
    uid = await _uid(there, wanted)
    taken, found = [], []
    for child in rendered:
        about = f"{child['kind']} {child['metadata']['name']}"
        try:
            finding = await _child(there, wanted, uid, child)
        except ApiError as error:
            lacks_rights = error.code in (401, 403) and error.may_succeed_later
            if error.code == 404 and kinds.CHILDREN[child["kind"]].optional:
                continue  # the kinds that the cluster lacks are a finding of their own
            finding = (
                untold(about, error) if lacks_rights or error.code is None else fail(about, error.message)
            )
        if finding is None:
            taken.append(about)
        else:
            found.append(finding)
    return [*([ok("children", f"the API server takes {', '.join(taken)}")] if taken else []), *found]


async def _uid(there: Cluster, wanted: LLMService) -> str:
    """Of the object as it is stored; empty where it is not there yet."""
    try:
        body = await there.get(kinds.LLMSERVICE.path(wanted.namespace, wanted.name))
    except ApiError:
        return ""
    return str(body["metadata"]["uid"])


async def _child(there: Cluster, wanted: LLMService, uid: str, child: Body) -> Finding | None:
    """None: nothing stands in its way.

    Raises:
        ApiError: the API server would refuse it, or may not be asked.
    """
    kind, name = kinds.CHILDREN[child["kind"]], child["metadata"]["name"]
    try:
        live = await there.get(kind.path(wanted.namespace, name))
    except ApiError as error:
        if error.code != 404:
            raise
        live = None
    if live is not None and not _is_ours(live, wanted, uid):
        said = f"exists and belongs to {ownership.described(live)}"
        return fail(f"{kind.kind} {name}", said, "rename one of the two")
    if live is None or kind is not kinds.JOB:  # a job's template cannot change: it is made once
        # Without its owner, which need not be there yet.
        metadata = {key: value for key, value in child["metadata"].items() if key != "ownerReferences"}
        await there.try_out({**child, "metadata": metadata}, kind)
    return None


def _is_ours(live: Body, wanted: LLMService, uid: str) -> bool:
    """A cache's claim and jobs belong to every service that uses it."""
    labels = live["metadata"].get("labels") or {}
    shared = names.CACHE_LABEL in labels and labels.get(names.MANAGED_BY_LABEL) == names.MANAGER
    return shared or ownership.of(live, wanted.name, uid) is Owner.US
