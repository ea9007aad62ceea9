"""What is known of one object's surroundings. No request."""

from __future__ import annotations

from dataclasses import replace

from llmservice_operator.api.cache_key import CacheKey
from llmservice_operator.api.seen import CacheSeen, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.live import kinds, ownership
from llmservice_operator.live.ownership import Owner
from llmservice_operator.live.store import Body, Store


def observe(store: Store, wanted: LLMService) -> Seen:
    """Children and pods that are this very object's (not a namesake's), its claim, its cache and its own status."""
    found = _workload(store, wanted.namespace, wanted.name, wanted.uid)
    body = store.get(kinds.LLMSERVICE, wanted.namespace, wanted.name) or {}
    name = wanted.claim_name
    claim = store.get(kinds.CLAIM, wanted.namespace, name) if name else None
    copied = wanted.cache is not None and name is not None
    return replace(
        found,
        claims={name: claim} if name is not None and claim is not None else {},
        cache=cache(store, CacheKey(wanted.namespace, name)) if copied and name else CacheSeen(),
        status=body.get("status") or {},
        served=frozenset(kind.kind for kind in store.kinds),
    )


def workload(store: Store, body: Body) -> Seen:
    """Children and pods of an object whose spec cannot be read."""
    metadata = body["metadata"]
    return _workload(store, metadata["namespace"], metadata["name"], metadata["uid"])


def cache(store: Store, key: CacheKey) -> CacheSeen:
    """A claim, the jobs that copy into it, and their pods."""
    found = list(store.of_cache(key))
    return CacheSeen(
        claim=store.get(kinds.CLAIM, key.namespace, key.claim),
        jobs=tuple(body for kind, body in found if kind is kinds.JOB),
        pods=tuple(body for kind, body in found if kind is kinds.POD),
    )


def _workload(store: Store, namespace: str, name: str, uid: str) -> Seen:
    children, pods = {}, []
    for kind, body in store.of_instance(namespace, name):
        if kind is kinds.POD:
            pods.append(body)  # a pod's controller is a ReplicaSet, so its labels must do
        elif ownership.of(body, name, uid) is Owner.US:
            children[kind.kind, str(body["metadata"]["name"])] = body
    return Seen(children=children, pods=tuple(pods))
