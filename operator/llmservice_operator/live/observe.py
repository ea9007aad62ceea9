"""What is known of one object's surroundings. No request."""

from __future__ import annotations

from dataclasses import replace

from llmservice_operator.api.seen import Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.live import kinds, ownership
from llmservice_operator.live.ownership import Owner
from llmservice_operator.live.store import Body, Store


def observe(store: Store, wanted: LLMService) -> Seen:
    """Children and pods that are this very object's (not a namesake's), and the claims that it refers to."""
    claim = store.get(kinds.CLAIM, wanted.namespace, wanted.claim_name)
    found = _workload(store, wanted.namespace, wanted.name, wanted.uid)
    return replace(found, claims={} if claim is None else {wanted.claim_name: claim})


def workload(store: Store, body: Body) -> Seen:
    """Children and pods of an object whose spec cannot be read."""
    metadata = body["metadata"]
    return _workload(store, metadata["namespace"], metadata["name"], metadata["uid"])


def _workload(store: Store, namespace: str, name: str, uid: str) -> Seen:
    children, pods = {}, []
    for kind, body in store.of_instance(namespace, name):
        if kind is kinds.POD:
            pods.append(body)  # a pod's controller is a ReplicaSet, so its labels must do
        elif ownership.of(body, name, uid) is Owner.US:
            children[kind.kind, str(body["metadata"]["name"])] = body
    return Seen(children=children, pods=tuple(pods))
