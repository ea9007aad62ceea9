"""What the operator asked of the API server, from the server's own audit log."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
READS = frozenset({"get", "list"})
LEFT_OUT = frozenset({"leases", "events"})


@dataclass(frozen=True, slots=True)
class Tally:
    """Requests by ``resource`` or ``resource/subresource``; leases and events are not among them."""

    writes: Counter[str]
    reads: Counter[str]


class Audit:
    """Counts one user's requests from one call of :meth:`since` to the next."""

    def __init__(self, log: Path, user: str) -> None:
        self._log = log
        self._user = user
        self._at = 0
        self.since()

    def since(self) -> Tally:
        """What came since the last call, or the beginning."""
        tally = Tally(Counter(), Counter())
        marked = f'"{self._user}"'.encode()
        with self._log.open("rb") as log:
            log.seek(self._at)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # half of a line: next time
                self._at += len(line)
                if marked in line:
                    self._count(tally, line)
        return tally

    def _count(self, tally: Tally, line: bytes) -> None:
        event = json.loads(line)
        if event["user"]["username"] != self._user:
            return
        about = event.get("objectRef") or {}
        what = about.get("resource") or event["requestURI"].partition("?")[0]
        if what in LEFT_OUT:
            return
        if "subresource" in about:
            what += f"/{about['subresource']}"
        if event["verb"] in WRITES:
            tally.writes[what] += 1
        elif event["verb"] in READS:
            tally.reads[what] += 1
