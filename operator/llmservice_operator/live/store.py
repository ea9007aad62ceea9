"""What the cluster looked like when it was last heard of: objects by kind, namespace and name.

Fed by watch events, by periodic lists and by the answers to our own writes, in any order. It never goes backward:
an object's older ``resourceVersion`` never replaces a newer one, so a late event cannot hide our own write, and
what is older than an object's deletion cannot bring it back. Used from one event loop only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from llmservice_operator.api import names
from llmservice_operator.live import kinds
from llmservice_operator.live.kinds import Kind

Body = Mapping[str, Any]
REMEMBERED_DELETIONS = 8192  # UIDs; long enough to outlive a list that was on its way when the object went


class Key(NamedTuple):
    """One ``LLMService``."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Store:
    """Objects, and which ``LLMService`` each belongs to."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[Key, Body]] = {kind: {} for kind in kinds.ALL}
        self._by_instance: dict[
            tuple[str, str], set[tuple[Kind, str]]
        ] = {}  # (namespace, label) → children, pods
        self._services: dict[tuple[str, str], set[str]] = {}  # (namespace, label value) → LLMService names
        self._deleted: dict[str, float] = {}  # UID → version as of which it was gone; the oldest first
        self._listed: set[Kind] = set()

    # --- reading ---------------------------------------------------------------------------------------------
    @property
    def ready(self) -> bool:
        """Every kind was listed at least once: what is not here does not exist."""
        return len(self._listed) == len(kinds.ALL)

    def get(self, kind: Kind, namespace: str, name: str) -> Body | None:
        return self._objects[kind].get(Key(namespace, name))

    def services(self) -> tuple[Key, ...]:
        """Every ``LLMService``."""
        return tuple(self._objects[kinds.LLMSERVICE])

    def of_instance(self, namespace: str, name: str) -> Iterator[tuple[Kind, Body]]:
        """Children and pods that carry the labels of the ``LLMService`` ``name``."""
        for kind, child in sorted(
            self._by_instance.get((namespace, names.label_value(name)), ()),
            key=lambda item: (item[0].kind, item[1]),
        ):
            yield kind, self._objects[kind][Key(namespace, child)]

    def concerned(self, kind: Kind, body: Body) -> tuple[Key, ...]:
        """The ``LLMService`` objects whose reconcile a change of ``body`` may matter to."""
        namespace, name = _namespace(body), _name(body)
        if kind is kinds.LLMSERVICE:
            return (Key(namespace, name),)
        if kind is kinds.CLAIM:
            services = self._objects[kinds.LLMSERVICE]
            return tuple(
                key
                for key, service in services.items()
                if key.namespace == namespace and _uses(service, name)
            )
        instance = _instance(body)
        return tuple(
            Key(namespace, service) for service in sorted(self._services.get((namespace, instance), ()))
        )

    # --- writing ---------------------------------------------------------------------------------------------
    def put(self, kind: Kind, body: Body) -> bool:
        """Keep an object. False where nothing was learnt: older, the same, or deleted meanwhile."""
        key, uid = Key(_namespace(body), _name(body)), _uid(body)
        known = self._objects[kind].get(key)
        if _version(body) <= self._deleted.get(uid, -1) or (
            known is not None and _version(body) <= _version(known)
        ):
            return False
        if known is not None:
            self._unindex(kind, key, known)
        kept = kinds.reduced(kind, body)
        self._objects[kind][key] = kept
        self._index(kind, key, kept)
        return True

    def drop(self, kind: Kind, body: Body) -> bool:
        """Forget an object that was deleted, or that lost the label we select by: a watch tells both alike.

        False where it was not known, is newer than this news, or another object has its name now.
        """
        key, uid = Key(_namespace(body), _name(body)), _uid(body)
        self._remember_deletion(uid, _version(body))
        known = self._objects[kind].get(key)
        if known is None or _uid(known) != uid or _version(known) > _version(body):
            return False
        self._remove(kind, key)
        return True

    def forget(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """The API server said that this very object is gone."""
        self._remember_deletion(uid, math.inf)
        known = self._objects[kind].get(Key(namespace, name))
        if known is not None and _uid(known) == uid:
            self._remove(kind, Key(namespace, name))

    def replace(
        self, kind: Kind, bodies: Iterable[Body], version: str, namespaces: frozenset[str] | None
    ) -> list[Body]:
        """Take a complete list of a kind (of ``namespaces``, or of all) as it was at ``version``.

        Returns what it taught us: new or changed objects, and those that have gone without our hearing of it.
        """
        listed: set[Key] = set()
        learnt: list[Body] = []
        for body in bodies:
            listed.add(Key(_namespace(body), _name(body)))
            if self.put(kind, body):
                learnt.append(body)
        for key, known in list(self._objects[kind].items()):
            within = namespaces is None or key.namespace in namespaces
            if within and key not in listed and _version(known) <= _number(version):
                self._remove(kind, key)
                learnt.append(known)
        return learnt

    def listed(self, kind: Kind) -> None:
        """All of a kind has been taken in once."""
        self._listed.add(kind)

    # --- indexes ---------------------------------------------------------------------------------------------
    def _index(self, kind: Kind, key: Key, body: Body) -> None:
        if kind is kinds.LLMSERVICE:
            self._services.setdefault((key.namespace, names.label_value(key.name)), set()).add(key.name)
        elif kind is not kinds.CLAIM:
            self._by_instance.setdefault((key.namespace, _instance(body)), set()).add((kind, key.name))

    def _unindex(self, kind: Kind, key: Key, body: Body) -> None:
        if kind is kinds.LLMSERVICE:
            _discard(self._services, (key.namespace, names.label_value(key.name)), key.name)
        elif kind is not kinds.CLAIM:
            _discard(self._by_instance, (key.namespace, _instance(body)), (kind, key.name))

    def _remove(self, kind: Kind, key: Key) -> None:
        self._unindex(kind, key, self._objects[kind].pop(key))

    def _remember_deletion(self, uid: str, version: float) -> None:
        self._deleted[uid] = max(version, self._deleted.pop(uid, -1))
        while len(self._deleted) > REMEMBERED_DELETIONS:
            del self._deleted[next(iter(self._deleted))]


def _discard(index: dict[tuple[str, str], set[Any]], key: tuple[str, str], item: object) -> None:
    members = index.get(key)
    if members is not None:
        members.discard(item)
        if not members:
            del index[key]


def _uses(service: Body, claim: str) -> bool:
    source = ((service.get("spec") or {}).get("model") or {}).get("source") or {}
    return bool((source.get("pvc") or {}).get("claimName") == claim)


def _namespace(body: Body) -> str:
    return str(body["metadata"].get("namespace", ""))


def _name(body: Body) -> str:
    return str(body["metadata"]["name"])


def _uid(body: Body) -> str:
    return str(body["metadata"].get("uid", ""))


def _version(body: Body) -> int:
    return _number(body["metadata"]["resourceVersion"])


def _instance(body: Body) -> str:
    return str((body["metadata"].get("labels") or {}).get(names.INSTANCE_LABEL, ""))


def _number(version: str) -> int:
    """Resource versions of one kind are ordered integers (promised since Kubernetes 1.35, true before)."""
    return int(version)
