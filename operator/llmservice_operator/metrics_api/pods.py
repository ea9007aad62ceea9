"""The engines' pods that are ready, by the LLMService that they serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from llmservice_operator.api import names

Body = Mapping[str, Any]

PATH: Final = "/api/v1/pods"
SELECTION: Final = {
    "labelSelector": f"{names.MANAGED_BY_LABEL}={names.MANAGER},{names.COMPONENT_LABEL}={names.ENGINE}"
}


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that takes requests."""

    uid: str
    namespace: str
    name: str
    instance: str  # the label's value: the LLMService's name, cut where it is long
    address: str


class ReadyPods:
    """Fed by a :class:`~llmservice_operator.metrics_api.follow.Follower`; what is not ready is not here."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}  # by UID
        self._services: dict[tuple[str, str], set[str]] = {}  # (namespace, label) → UIDs

    def of(self, namespace: str, name: str) -> tuple[Pod, ...]:
        """The ready pods of the LLMService ``name``."""
        return tuple(self._pods[uid] for uid in self._services.get((namespace, names.label_value(name)), ()))

    def replace(self, bodies: list[Body]) -> None:
        self._pods.clear()
        self._services.clear()
        for body in bodies:
            self.put(body)

    def put(self, body: Body) -> None:
        self.drop(body)
        pod = parse(body)
        if pod is not None:
            self._pods[pod.uid] = pod
            self._services.setdefault((pod.namespace, pod.instance), set()).add(pod.uid)

    def drop(self, body: Body) -> None:
        pod = self._pods.pop(str(body["metadata"].get("uid", "")), None)
        if pod is not None:
            where = (pod.namespace, pod.instance)
            self._services[where].discard(pod.uid)
            if not self._services[where]:
                del self._services[where]


def parse(body: Body) -> Pod | None:
    """None for one that takes no requests: not ready, or ending."""
    metadata, status = body["metadata"], body.get("status") or {}
    address, instance = str(status.get("podIP") or ""), _instance(metadata)
    conditions = status.get("conditions") or ()
    ready = any(found.get("type") == "Ready" and found.get("status") == "True" for found in conditions)
    if not ready or not address or not instance or "deletionTimestamp" in metadata:
        return None
    return Pod(str(metadata["uid"]), str(metadata["namespace"]), str(metadata["name"]), instance, address)


def _instance(metadata: Body) -> str:
    return str((metadata.get("labels") or {}).get(names.INSTANCE_LABEL, ""))
