"""The way to the API server fails in every way that it can; afterwards an edit is acted on, and what was deleted
meanwhile is noticed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from e2e.cluster.errors import ClusterError
from e2e.cluster.launcher import Cluster
from tests.operator.control_plane import crashing, faults, kube
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.faults import Asked, Fault, Proxy
from tests.operator.control_plane.fleet import Fleet
from tests.operator.control_plane.kube import Kube

LIMIT = 60.0  # seconds
GAP = 5.0  # seconds of disturbance; less than the lease's deadline, so that the leader stays one
RELIST = 10.0  # seconds, where the relist is what has to notice


@dataclass
class Way:
    """An operator whose every request goes through a proxy."""

    proxy: Proxy
    fleet: Fleet


@pytest.fixture
def way(
    kubernetes: Kube, whole_fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Way]:
    whole_fleet.stop_all()
    proxy = Proxy(kubernetes)
    fleet = Fleet(proxy.seen_from(kubernetes), tmp_path)
    monkeypatch.setenv(crashing.RELIST_SECONDS, str(RELIST))
    yield Way(proxy, fleet)
    fleet.stop_all()
    proxy.stop()


def test_watches_that_are_cut_in_the_middle_go_on_where_they_were(place: Place, way: Way) -> None:
    way.fleet.start()
    _undisturbed(place, way)
    way.proxy.choose = no_watches
    assert way.proxy.cut_watches() > 5
    _delete_behind_its_back(place)
    time.sleep(GAP)
    way.proxy.choose = faults.healthy
    _acts_again(place, way)


def test_what_was_deleted_while_a_watch_expired_is_noticed_by_the_next_list(place: Place, way: Way) -> None:
    way.fleet.start(program=crashing.PROGRAM)
    _undisturbed(place, way)
    way.proxy.choose = no_watches
    way.proxy.cut_watches()
    _delete_behind_its_back(place)
    time.sleep(1.0)
    expired: set[str] = set()

    def once(asked: Asked) -> Fault | None:
        if not asked.is_watch or asked.path in expired:
            return None
        expired.add(asked.path)
        return Fault.EXPIRED

    way.proxy.choose = once
    _acts_again(place, way)
    assert any(fault is Fault.EXPIRED for _, fault in way.proxy.met)


@pytest.mark.parametrize(
    "fault",
    [
        Fault.THROTTLED,
        pytest.param(Fault.BROKEN, marks=pytest.mark.full),
        pytest.param(Fault.RESET, marks=pytest.mark.full),
    ],
    ids=lambda fault: fault.name.lower(),
)
def test_requests_that_fail_for_a_while_are_made_up_for(place: Place, way: Way, fault: Fault) -> None:
    """Everything but the lease: writes first, then new watches and lists too."""
    way.fleet.start()
    _undisturbed(place, way)
    way.proxy.choose = lambda asked: None if asked.is_lease else fault
    _edit(place, 9000)
    kube.eventually(lambda: any(asked.method == "PATCH" for asked, _ in way.proxy.met), GAP, "a write met it")
    way.proxy.cut_watches()
    _delete_behind_its_back(place)
    time.sleep(GAP)
    way.proxy.choose = faults.healthy
    assert any(asked.is_watch for asked, _ in way.proxy.met)
    _acts_again(place, way)


@pytest.mark.full
def test_a_start_amid_failures_comes_through(place: Place, way: Way) -> None:
    """Every second request fails, by chance."""
    chance = random.Random(1)
    way.proxy.choose = lambda _: chance.choice((None, None, Fault.THROTTLED, Fault.RESET))
    way.fleet.start(ready=False)
    place.apply()
    _live_on(way, lambda: place.get("Service") is not None, "the Service is made")
    way.proxy.choose = faults.healthy
    _acts_again(place, way)


@pytest.mark.parametrize("seconds", [20, pytest.param(60, marks=pytest.mark.full)])
def test_an_api_server_that_is_down_for_long_is_found_again(
    place: Place, cluster: Cluster, operators: Fleet, seconds: int
) -> None:
    place.apply()
    place.wait_for("Service")
    _keep_down(cluster, seconds)

    def edited() -> bool:
        try:
            _edit(place, 9000)
        except (httpx.TransportError, AssertionError):  # gone, or not all of it there yet
            return False
        return True

    kube.eventually(edited, LIMIT, "the API server is back")
    back = time.monotonic()
    operators.keep_two()  # as a kubelet does: the leader has lost its lease
    kube.eventually(lambda: _port(place) == 9000, LIMIT, "the edit is acted on")
    print(
        f"API server down for {seconds} s, an edit acted on {time.monotonic() - back:.1f} s after it was back"
    )


# --- what every case does ------------------------------------------------------------------------------------
def no_watches(asked: Asked) -> Fault | None:
    return Fault.RESET if asked.is_watch else None


def _undisturbed(place: Place, way: Way) -> None:
    """Two services that have come to rest."""
    for name in ("chat", "gone"):
        place.apply(name)
        kube.eventually(partial(_is_told, place, name), LIMIT, f"{name} has come to rest")
    kube.eventually(lambda: _knows_all(place, way), LIMIT, "the metrics count what there is")


def _delete_behind_its_back(place: Place) -> None:
    place.kube.delete("Service", "chat", place.name)
    place.kube.delete("LLMService", "gone", place.name)


def _acts_again(place: Place, way: Way) -> None:
    begun = time.monotonic()
    _live_on(way, lambda: place.get("Service") is not None, "the deleted Service is back")
    noticed = time.monotonic() - begun
    _live_on(way, lambda: _knows_all(place, way), "the deleted LLMService is forgotten")
    edited = time.monotonic()
    _edit(place, 9100)
    _live_on(way, lambda: _port(place) == 9100, "an edit is acted on")
    now = time.monotonic()
    print(f"a deletion made up for after {noticed:.1f} s, an edit acted on after {now - edited:.1f} s")


def _live_on(way: Way, look: Callable[[], bool], what: str) -> None:
    """Wait, and start the operator again where it has ended, as a kubelet does."""

    def turn() -> bool:
        for one in way.fleet.replicas:
            if one.process.poll() is not None:
                way.fleet.replicas.remove(one)
                way.fleet.start(ready=False)
                break
        return look()

    kube.eventually(turn, LIMIT, f"{what}, see {way.fleet.replicas[-1].log}")


def _is_told(place: Place, name: str) -> bool:
    return kube.condition(place.get("LLMService", name), "Ready").get("reason") == "Unschedulable"


def _knows_all(place: Place, way: Way) -> bool:
    """Does the operator, by its metrics, know of as many LLMServices as there are?"""
    there = len(place.kube.list("LLMService"))
    for one in way.fleet.replicas:
        try:
            if one.metric("llmservice_operator_objects", condition="Ready") == there:
                return True
        except OSError:
            continue  # it has ended, or only just begins
    return False


def _edit(place: Place, port: int) -> None:
    place.kube.patch("LLMService", "chat", place.name, {"spec": {"expose": {"service": {"port": port}}}})


def _port(place: Place) -> int:
    service = place.get("Service") or {"spec": {"ports": [{"port": 0}]}}
    return int(service["spec"]["ports"][0]["port"])


def _keep_down(cluster: Cluster, seconds: float) -> None:
    """The supervisor starts it again after a second each time; it is killed before it can answer."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(ClusterError, ProcessLookupError):
            os.kill(cluster.pid_of("kube-apiserver"), signal.SIGKILL)
        time.sleep(0.3)
