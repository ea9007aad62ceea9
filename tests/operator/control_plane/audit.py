"""What the API server's audit log says the operator did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.operator.control_plane import fleet

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
LEFT_OUT = frozenset({"leases", "events"})


class Audit:
    """The operator's requests since some moment."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._from = log.stat().st_size

    def requests(self, verbs: frozenset[str], namespace: str | None = None) -> list[str]:
        """``verb resource[/subresource] namespace/name`` of each, leases and events left out."""
        return [
            f"{event['verb']} {_what(event)}"
            for event in self._events()
            if event["verb"] in verbs
            and event.get("objectRef", {}).get("resource") not in LEFT_OUT
            and (namespace is None or event.get("objectRef", {}).get("namespace") == namespace)
        ]

    def writes(self, namespace: str | None = None) -> list[str]:
        return self.requests(WRITES, namespace)

    def refused(self, namespace: str) -> list[str]:
        """Requests that the operator had no right to."""
        return [
            f"{event['verb']} {event['requestURI']}"
            for event in self._events()
            if event["responseStatus"]["code"] in (401, 403)
            and event.get("objectRef", {}).get("namespace") == namespace
        ]

    def _events(self) -> Iterator[dict[str, Any]]:
        with self._log.open("rb") as log:
            log.seek(max(0, self._from - 1))
            if self._from and log.read(1) != b"\n":
                log.readline()  # the API server was in the middle of a line
            for line in log:
                if not line.endswith(b"\n"):
                    return  # and it is again
                event = json.loads(line)
                if event["user"]["username"] == fleet.USER and event["userAgent"].startswith(
                    "llmservice-operator"
                ):
                    yield event


def _what(event: dict[str, Any]) -> str:
    ref = event.get("objectRef")
    if ref is None:
        return str(event["requestURI"])
    sub = f"/{ref['subresource']}" if "subresource" in ref else ""
    return f"{ref.get('resource')}{sub} {ref.get('namespace')}/{ref.get('name')}"
