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
from llmservice_operator.api.cache_key import CacheKey, claim_of
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

    def __init__(self, in_use: tuple[Kind, ...] = kinds.ALL) -> None:
        self.kinds = in_use  # what is watched and listed; of every other kind nothing is known
        self._objects: dict[Kind, dict[Key, Body]] = {kind: {} for kind in kinds.ALL}
        self._by_instance: dict[
            tuple[str, str], set[tuple[Kind, str]]
        ] = {}  # (namespace, label) → children, pods
        self._services: dict[tuple[str, str], set[str]] = {}  # (namespace, label value) → LLMService names
        self._by_claim: dict[tuple[str, str], set[str]] = {}  # (namespace, claim) → LLMService names
        self._by_cache: dict[tuple[str, str], set[tuple[Kind, str]]] = {}  # (namespace, label) → jobs, pods
        self._deleted: dict[str, float] = {}  # UID → version as of which it was gone; the oldest first
        self._listed: set[Kind] = set()

    # --- reading ---------------------------------------------------------------------------------------------
    @property
    def ready(self) -> bool:
        """Every kind in use was listed at least once: what is not here does not exist."""
        return self._listed.issuperset(self.kinds)

    @property
    def served(self) -> frozenset[str]:
        """The names of the kinds in use."""
        return frozenset(kind.kind for kind in self.kinds)

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

    def of_cache(self, key: CacheKey) -> Iterator[tuple[Kind, Body]]:
        """Jobs and pods that carry the label of a cache."""
        found = self._by_cache.get((key.namespace, key.claim), ())
        for kind, name in sorted(found, key=lambda item: (item[0].kind, item[1])):
            yield kind, self._objects[kind][Key(key.namespace, name)]

    def users(self, namespace: str, claim: str) -> tuple[Key, ...]:
        """The ``LLMService`` objects that refer to a claim."""
        return tuple(Key(namespace, name) for name in sorted(self._by_claim.get((namespace, claim), ())))

    def concerned(self, kind: Kind, body: Body) -> tuple[Key | CacheKey, ...]:
        """What a change to ``body`` may matter to. Asked before the change is kept: where an object turns from one
        claim to another, both are concerned."""
        namespace, name = _namespace(body), _name(body)
        if kind is kinds.LLMSERVICE:
            known = self.get(kind, namespace, name)
            caches = {one for one in (_cache(body), _cache(known) if known else None) if one is not None}
            return (Key(namespace, name), *sorted(caches, key=str))
        claim = name if kind is kinds.CLAIM else _cache_label(body)
        if claim:
            users = self.users(namespace, claim)
            bodies = (self.get(kinds.LLMSERVICE, *user) for user in users)
            copied = _cache_label(body) or any(user is not None and _cache(user) for user in bodies)
            return (*users, *((CacheKey(namespace, claim),) if copied else ()))
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
        for index, at, item in self._places(kind, key, body):
            index.setdefault(at, set()).add(item)

    def _unindex(self, kind: Kind, key: Key, body: Body) -> None:
        for index, at, item in self._places(kind, key, body):
            members = index.get(at, set())
            members.discard(item)
            if not members:
                index.pop(at, None)

    def _places(
        self, kind: Kind, key: Key, body: Body
    ) -> Iterator[tuple[dict[tuple[str, str], set[Any]], tuple[str, str], Any]]:
        """Where an object is found again: (index, key in it, entry)."""
        if kind is kinds.LLMSERVICE:
            yield self._services, (key.namespace, names.label_value(key.name)), key.name
            if (claim := claim_of(body)) is not None:
                yield self._by_claim, (key.namespace, claim[0]), key.name
        elif kind is not kinds.CLAIM:
            if cache := _cache_label(body):
                yield self._by_cache, (key.namespace, cache), (kind, key.name)
            else:
                yield self._by_instance, (key.namespace, _instance(body)), (kind, key.name)

    def _remove(self, kind: Kind, key: Key) -> None:
        self._unindex(kind, key, self._objects[kind].pop(key))

    def _remember_deletion(self, uid: str, version: float) -> None:
        self._deleted[uid] = max(version, self._deleted.pop(uid, -1))
        while len(self._deleted) > REMEMBERED_DELETIONS:
            del self._deleted[next(iter(self._deleted))]


def _cache(service: Body) -> CacheKey | None:
    """The cache that a service uses."""
    claim = claim_of(service)
    return CacheKey(_namespace(service), claim[0]) if claim is not None and claim[1] else None


def _cache_label(body: Body) -> str:
    return str((body["metadata"].get("labels") or {}).get(names.CACHE_LABEL, ""))


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
