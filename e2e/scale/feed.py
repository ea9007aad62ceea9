"""When things were seen to happen: watches of the services and of the Deployments, on threads of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from e2e.cluster.errors import ClusterError
from e2e.scale.api import DEPLOYMENTS, SERVICES, Api, Body

Seen = Callable[[Body], bool]


class Feed:
    """Objects of one kind in one namespace, as a watch tells them, and which of them are ``settled``."""

    def __init__(self, api: Api, path: str, settled: Seen) -> None:
        self._api = api
        self._path = path
        self._is_settled = settled
        self._told = threading.Condition()
        self._objects: dict[str, Body] = {}
        self._settled: set[str] = set()
        version = api.version(path)
        threading.Thread(target=self._follow, args=(version,), daemon=True, name=path).start()

    def _follow(self, version: str) -> None:
        try:
            for body in self._api.watch(self._path, version):
                name, settled = body["metadata"]["name"], self._is_settled(body)
                with self._told:
                    self._objects[name] = body
                    (self._settled.add if settled else self._settled.discard)(name)
                    self._told.notify_all()
        except OSError:
            pass  # the cluster is gone

    def until(self, name: str, seen: Seen, within: float) -> float:
        """The moment at which the object is first seen so."""
        return self._wait(lambda: name in self._objects and seen(self._objects[name]), within, name)

    def until_settled(self, count: int, within: float) -> float:
        """The moment at which so many are."""
        return self._wait(lambda: len(self._settled) >= count, within, f"{count} of {self._path}")

    def _wait(self, enough: Callable[[], bool], within: float, what: str) -> float:
        deadline = time.monotonic() + within
        with self._told:
            while not enough():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ClusterError(f"{what}: not within {within:g} s, {len(self._settled)} are settled")
                self._told.wait(min(left, 5.0))
        return time.monotonic()


def services(api: Api, namespace: str) -> Feed:
    """Settled: Ready."""
    return Feed(api, SERVICES.format(f"/namespaces/{namespace}"), _is_ready)


def deployments(api: Api, namespace: str) -> Feed:
    """Settled: available."""
    return Feed(api, DEPLOYMENTS.format(f"/namespaces/{namespace}"), _is_available)


def has_argument(value: str) -> Seen:
    """Does the template pass ``value`` to the engine?"""

    def look(deployment: Body) -> bool:
        containers = deployment["spec"]["template"]["spec"]["containers"]
        return any(value in (container.get("args") or ()) for container in containers)

    return look


def _is_ready(service: Body) -> bool:
    conditions: list[dict[str, Any]] = (service.get("status") or {}).get("conditions") or []
    current = [one for one in conditions if one["type"] == "Ready" and one["status"] == "True"]
    return any(one.get("observedGeneration") == service["metadata"]["generation"] for one in current)


def _is_available(deployment: Body) -> bool:
    return bool((deployment.get("status") or {}).get("availableReplicas"))
