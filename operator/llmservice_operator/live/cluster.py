"""Writing: one server-side apply per child, only where something differs, and the status."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter

from llmservice_operator.api import compare, names
from llmservice_operator.api.cache_key import CacheKey
from llmservice_operator.api.seen import Action, Applied, AppliedChild
from llmservice_operator.api.spec import LLMService
from llmservice_operator.live import kinds, merge, ownership
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.kinds import Kind
from llmservice_operator.live.ownership import Owner
from llmservice_operator.live.store import Body, Key, Store

Parent = LLMService | CacheKey  # what children belong to

REFUSAL_STANDS = 300.0  # seconds until a refused write is tried again as it was (a quota may have grown)
WRITES = Counter("llmservice_operator_writes_total", "Writes to the API server", ["kind", "action"])

logger = logging.getLogger(__name__)


class Behind(Exception):
    """The store did not know of a child of ours that exists. It does now: decide again."""


class Ending(Exception):
    """The namespace is being deleted: nothing more is made in it."""


class Superseded(Exception):
    """The object changed or went while its status was on its way. Its new state is reconciled anyway."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    intent: tuple[str, str]  # render hash, and the live object's UID
    until: float
    child: AppliedChild


class Cluster:
    """The cluster as something that is written to. Every answer goes into the store at once."""

    def __init__(self, client: Client, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._store = store
        self._clock = clock
        self._refusals: dict[Key | CacheKey, dict[tuple[str, str], _Refusal]] = {}
        self._vain: dict[
            Key | CacheKey, dict[tuple[str, str], tuple[str, str]]
        ] = {}  # applies that changed nothing

    async def apply(
        self, parent: Parent, rendered: Sequence[Body], unwanted: Sequence[tuple[str, str]]
    ) -> Applied:
        """Bring the children to what was rendered, in that order, then delete the unwanted ones.

        A child waits for the revision before it: no pod template is applied that was not kept first.

        Raises:
            Behind: look again and decide again.
            Ending: there is nothing to be done any more.
        """
        children = []
        for body in rendered:
            child = await self._apply(parent, body)
            children.append(child)
            if child.action is Action.FAILED or (_bad(child) and child.kind == kinds.REVISION.kind):
                return Applied(tuple(children))
        whole = not any(_bad(child) for child in children)
        for kind, name in unwanted:
            if whole or kind == kinds.JOB.kind:  # of jobs the old ones would pile up
                children.append(await self._delete(parent, kinds.CHILDREN[kind], name))
        return Applied(tuple(children))

    async def write_status(self, body: Body, status: Mapping[str, Any]) -> bool:
        """Write the status where it differs from the one in ``body``. True if something was written.

        Raises:
            Superseded: ``body`` is no longer the newest.
            ApiError: no answer, or a refusal.
        """
        changes = merge.patch(body.get("status") or {}, status)
        if not changes:
            return False
        metadata = body["metadata"]
        path = kinds.LLMSERVICE.path(metadata["namespace"], metadata["name"]) + "/status"
        precondition = {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
        try:
            written = await self._client.merge(path, {"metadata": precondition, "status": changes})
        except ApiError as error:
            if error.code in (404, 409):
                raise Superseded(error.message) from error
            raise
        WRITES.labels(names.KIND, "status").inc()
        self._store.put(kinds.LLMSERVICE, written)
        return True

    def forget(self, key: Key | CacheKey) -> None:
        """The object is gone."""
        self._refusals.pop(key, None)
        self._vain.pop(key, None)

    # --- one child -------------------------------------------------------------------------------------------
    async def _apply(self, parent: Parent, rendered: Body) -> AppliedChild:
        kind = kinds.CHILDREN[rendered["kind"]]
        name = str(rendered["metadata"]["name"])
        try:
            live = self._store.get(kind, parent.namespace, name) or await self._missed(parent, kind, name)
            if live is not None:
                if (obstacle := _obstacle(parent, kind, name, live)) is not None:
                    return obstacle
                if (
                    kind is kinds.JOB
                ):  # its template cannot change: it is made once, and replaced under another name
                    return AppliedChild(kind.kind, name, Action.UNCHANGED, live)
                if same(rendered, live) or self._is_vain(parent, rendered, live):
                    return AppliedChild(kind.kind, name, Action.UNCHANGED, live)
            if (refusal := self._standing_refusal(parent, rendered, live)) is not None:
                return refusal
            if kind is kinds.DEPLOYMENT and live is not None and "replicas" not in rendered["spec"]:
                await self._hand_replicas_over(kind.path(parent.namespace, name))
            written = await self._client.apply(kind.path(parent.namespace, name), rendered)
        except ApiError as error:
            if error.namespace_is_going:
                raise Ending(error.message) from error
            return self._refused(parent, rendered, kind, name, error)
        if live is not None and _version(live) == _version(written.body):
            return self._in_vain(parent, rendered, live)
        action = Action.CREATED if written.created else Action.PATCHED
        WRITES.labels(kind.kind, action.value).inc()
        logger.info("%s %s", action.value, kind.kind, extra=_context(parent) | {"child": name})
        self._store.put(kind, written.body)
        self._refusals.get(_key(parent), {}).pop((kind.kind, name), None)
        return AppliedChild(kind.kind, name, action, kinds.reduced(kind, written.body))

    async def _hand_replicas_over(self, path: str) -> None:
        """Before we drop ``spec.replicas`` another manager owns it, for a field without an owner goes back to 1.

        At 0 nothing is handed over: an autoscaler leaves a Deployment at 0 alone.
        """
        live = await self._client.get(path)
        replicas = live["spec"].get("replicas")
        if not replicas or not ownership.manages(live, names.MANAGER, "spec", "replicas"):
            return
        metadata = {key: live["metadata"][key] for key in ("name", "namespace")}
        kept = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
        await self._client.apply(path, kept | {"spec": {"replicas": replicas}}, names.HANDOVER_MANAGER)

    def _is_vain(self, parent: Parent, rendered: Body, live: Body) -> bool:
        child = (str(rendered["kind"]), str(rendered["metadata"]["name"]))
        marked = self._vain.get(_key(parent), {}).get(child)
        return marked == (_render_hash(rendered), _generation(live))

    def _in_vain(self, parent: Parent, rendered: Body, live: Body) -> AppliedChild:
        """The cluster keeps a value of its own (an admission policy, a normal form): do not fight over it."""
        kind, name = str(rendered["kind"]), str(rendered["metadata"]["name"])
        path = compare.differs(rendered, live)
        logger.warning(
            "the cluster keeps its own %s of %s", path, kind, extra=_context(parent) | {"child": name}
        )
        WRITES.labels(kind, Action.UNCHANGED.value).inc()
        vain = self._vain.setdefault(_key(parent), {})
        vain[kind, name] = (_render_hash(rendered), _generation(live))
        return AppliedChild(kind, name, Action.UNCHANGED, live)

    async def _missed(self, parent: Parent, kind: Kind, name: str) -> Body | None:
        """Before an object is created: is there one that the store cannot know, or does not know yet?"""
        try:
            live = await self._client.get(kind.path(parent.namespace, name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        if ownership.of_parent(live, parent) is Owner.US and self._store.put(kind, live):
            raise Behind(f"{kind.kind} {parent.namespace}/{name}")
        return live

    def _standing_refusal(self, parent: Parent, rendered: Body, live: Body | None) -> AppliedChild | None:
        key = (str(rendered["kind"]), str(rendered["metadata"]["name"]))
        refusal = self._refusals.get(_key(parent), {}).get(key)
        if refusal is None or refusal.intent != _intent(rendered, live) or refusal.until <= self._clock():
            return None
        return refusal.child

    def _refused(
        self, parent: Parent, rendered: Body, kind: Kind, name: str, error: ApiError
    ) -> AppliedChild:
        live = self._store.get(kind, parent.namespace, name)
        action = Action.FAILED if error.may_succeed_later else Action.REFUSED
        WRITES.labels(kind.kind, action.value).inc()
        logger.warning(
            "%s %s: %s", kind.kind, action.value, error.message, extra=_context(parent) | {"child": name}
        )
        child = AppliedChild(kind.kind, name, action, live, error.message, error.code)
        if action is Action.REFUSED:
            refusals = self._refusals.setdefault(_key(parent), {})
            until = self._clock() + REFUSAL_STANDS
            refusals[kind.kind, name] = _Refusal(_intent(rendered, live), until, child)
        return child

    async def _delete(self, parent: Parent, kind: Kind, name: str) -> AppliedChild:
        live = self._store.get(kind, parent.namespace, name)
        if (
            live is None
            or ownership.of_parent(live, parent) is not Owner.US
            or "deletionTimestamp" in live["metadata"]
        ):
            return AppliedChild(kind.kind, name, Action.UNCHANGED, live)
        uid = str(live["metadata"]["uid"])
        try:
            await self._client.delete(kind.path(parent.namespace, name), uid)
        except ApiError as error:
            if error.code != 404:  # 409: another object has the name now; the store will know by the next try
                action = Action.FAILED if error.may_succeed_later else Action.REFUSED
                return AppliedChild(kind.kind, name, action, live, error.message, error.code)
        WRITES.labels(kind.kind, Action.DELETED.value).inc()
        logger.info("deleted %s", kind.kind, extra=_context(parent) | {"child": name})
        self._store.forget(kind, parent.namespace, name, uid)
        return AppliedChild(kind.kind, name, Action.DELETED)


def same(rendered: Body, live: Body) -> bool:
    """Was this render applied before, and has nobody changed what it says?"""
    return _render_hash(rendered) == _render_hash(live) and compare.differs(rendered, live) is None


def _key(parent: Parent) -> Key | CacheKey:
    return parent if isinstance(parent, CacheKey) else Key(parent.namespace, parent.name)


def _obstacle(parent: Parent, kind: Kind, name: str, live: Body) -> AppliedChild | None:
    owner = ownership.of_parent(live, parent)
    if owner is Owner.OTHER:
        message = (
            f'{kind.kind} "{name}" exists and belongs to {ownership.described(live)}; rename one of the two'
        )
        return AppliedChild(kind.kind, name, Action.REFUSED, live, message, 409)
    if owner is Owner.PREDECESSOR or "deletionTimestamp" in live["metadata"]:
        message = f'{kind.kind} "{name}" of before is still being deleted'
        return AppliedChild(kind.kind, name, Action.FAILED, live, message, 409)
    return None


def _bad(child: AppliedChild) -> bool:
    return child.action in (Action.REFUSED, Action.FAILED)


def _intent(rendered: Body, live: Body | None) -> tuple[str, str]:
    return _render_hash(rendered), "" if live is None else str(live["metadata"]["uid"])


def _render_hash(body: Body) -> str:
    return str((body["metadata"].get("annotations") or {}).get(names.RENDER_HASH, ""))


def _version(body: Body) -> str:
    return str(body["metadata"]["resourceVersion"])


def _generation(body: Body) -> str:
    """What changes with the spec; where a kind has no generation, with anything."""
    return str(body["metadata"].get("generation") or _version(body))


def _context(parent: Parent) -> dict[str, Any]:
    if isinstance(parent, CacheKey):
        return {"object": str(parent)}
    return {"object": f"{parent.namespace}/{parent.name}", "generation": parent.generation}
