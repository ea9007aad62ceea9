"""The measurement, in the order in which it is told: create, rest, edit, restart, kill, and the floor."""

from __future__ import annotations

import time
from collections.abc import Callable

from e2e.cluster.errors import ClusterError
from e2e.scale import bed, feed
from e2e.scale.api import SERVICES, Api
from e2e.scale.audit import Audit
from e2e.scale.bed import FLOOR, OURS, Bed
from e2e.scale.feed import Feed
from e2e.scale.measured import Measured
from e2e.scale.operators import USER, Operators, Replica

LIMIT = 600.0  # seconds for anything to happen
CALM = 2.0  # seconds after the last Ready, and after a restart's last reconcile
REST = 60.0
EDITS = {100: 20}  # by number of services
EDITS_ELSE = 100
FIRST_LENGTH = 4096  # what the edits count up from: engine.maxModelLen

Say = Callable[[str], None]


def run(place: Bed, program: tuple[str, ...], found: Measured, say: Say) -> None:
    """Fill ``found`` in; what is measured is said as it comes."""
    operators = Operators(place.cluster, place.api, program)
    audit = Audit(place.cluster.audit_log, USER)
    watched = feed.deployments(place.api, OURS)
    replica = operators.start()
    audit.since()
    _create(place, replica, audit, found)
    say(f"all Ready after {found.ready:.1f} s; at rest for {REST:.0f} s")
    _rest(audit, found)
    say("edits")
    editor = Editor(place.api, watched)
    found.edits = [editor.edit(number % found.count) for number in range(EDITS.get(found.count, EDITS_ELSE))]
    found.peak_mib = replica.peak_mib()
    say("restart")
    replica = _restart(operators, replica, audit, editor, found)
    say("kill -9")
    _kill(operators, replica, editor, found)
    say("floor")
    found.floor = _floor(place, found.count)


class Editor:
    """Edits services, each time to a value that was not there before."""

    def __init__(self, api: Api, deployments: Feed) -> None:
        self._api = api
        self._deployments = deployments
        self._length = FIRST_LENGTH

    def begin(self, number: int) -> Callable[[], float]:
        """Send an edit of one service; the answer waits until its Deployment's template shows it."""
        self._length += 1
        name, length = bed.name(number), self._length
        path = SERVICES.format(f"/namespaces/{OURS}") + f"/{name}"
        self._api.merge(path, {"spec": {"engine": {"maxModelLen": length}}})
        return lambda: self._deployments.until(name, feed.has_argument(str(length)), LIMIT)

    def edit(self, number: int) -> float:
        """Seconds from the request to the template."""
        sent = time.monotonic()
        return self.begin(number)() - sent


def _create(place: Bed, replica: Replica, audit: Audit, found: Measured) -> None:
    services = feed.services(place.api, OURS)
    begun = time.monotonic()
    place.api.create_all(bed.services(found.count))
    found.ready = services.until_settled(found.count, LIMIT) - begun
    found.ready_cpu, found.ready_mib = replica.cpu_seconds(), replica.peak_mib()
    time.sleep(CALM)
    found.writes = audit.since().writes


def _rest(audit: Audit, found: Measured) -> None:
    time.sleep(REST)
    tally = audit.since()
    found.rest_writes, found.rest_reads = tally.writes, tally.reads


def _restart(
    operators: Operators, replica: Replica, audit: Audit, editor: Editor, found: Measured
) -> Replica:
    """Once with nothing changed, to count writes; once with an edit as the new process starts."""
    time.sleep(CALM)
    replica.stop()
    audit.since()
    replica = operators.start()
    _until_through(replica, found.count)
    found.restart_writes, found.restart_mib = audit.since().writes, replica.peak_mib()
    replica.stop()
    started = time.monotonic()
    replica = operators.start(leading=False)
    found.restart = editor.begin(found.count // 2)() - started
    _until_through(replica, found.count)
    return replica


def _kill(operators: Operators, replica: Replica, editor: Editor, found: Measured) -> None:
    follower = operators.start(leading=False)
    operators.wait_follows(follower)
    replica.kill()
    killed = time.monotonic()
    found.killed = editor.begin(found.count // 3)() - killed
    follower.stop()


def _until_through(replica: Replica, count: int) -> None:
    """Until a new process has looked at every service and rests."""
    deadline = time.monotonic() + LIMIT
    while (
        replica.metric("llmservice_operator_reconcile_seconds_count") < count
        or replica.metric("llmservice_operator_queue_depth") > 0
    ):
        if time.monotonic() > deadline:
            raise ClusterError(f"{replica.identity} does not come to rest")
        time.sleep(0.5)
    time.sleep(CALM)


def _floor(place: Bed, count: int) -> float:
    deployments = feed.deployments(place.api, FLOOR)
    begun = time.monotonic()
    place.api.create_all(bed.floor(count))
    return deployments.until_settled(count, LIMIT) - begun
