"""Many services at once: the writes of each stay few, and news of one never waits behind the pile of the others.

Seconds are measured by ``make bench-operator``; the limits here are only there to end a run that hangs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from llmservice_operator.watch import operator

from tests.operator.control_plane import kube
from tests.operator.control_plane.audit import Audit
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import Fleet
from tests.operator.control_plane.kube import Body

MANY = 30
PILE = 60
LIMIT = 60.0  # seconds


@pytest.fixture
def crowd(place: Place, operators: Fleet) -> Iterator[Place]:
    """A namespace whose services go before it does, so that the next test does not wait for their deletion."""
    yield place
    place.kube.call("DELETE", kube.path("LLMService", place.name), {"propagationPolicy": "Background"})


def test_thirty_services_at_once_take_six_writes_each_and_then_none(crowd: Place, audit: Audit) -> None:
    _create(crowd, "many", MANY)
    kube.eventually(lambda: len(_reported(crowd, "many")) == MANY, LIMIT, "all are reported")

    def all_ready() -> bool:
        waiting = [one for one in _services(crowd) if kube.condition(one, "Ready").get("status") != "True"]
        for one in waiting:
            crowd.kube.make_pods_ready(crowd.name, one["metadata"]["name"])
        return not waiting

    kube.eventually(all_ready, LIMIT, "all are Ready")
    time.sleep(2.0)
    writes = audit.writes(crowd.name)
    assert len(writes) <= 6 * MANY, f"{len(writes) / MANY} writes a service"
    time.sleep(3.0)
    assert audit.writes(crowd.name)[len(writes) :] == []
    assert not audit.refused(crowd.name)


def test_news_of_one_service_does_not_wait_behind_a_pile_of_new_ones(crowd: Place, operators: Fleet) -> None:
    crowd.apply("chat")
    crowd.wait_ready("chat")
    _create(crowd, "pile", PILE)
    crowd.kube.patch("LLMService", "chat", crowd.name, {"spec": {"engine": {"maxModelLen": 4096}}})
    edited = crowd.must("LLMService")["metadata"]["generation"]

    def told() -> bool:
        ready = kube.condition(crowd.get("LLMService"), "Ready")
        return bool(ready.get("observedGeneration") == edited)

    kube.eventually(told, LIMIT, "the edit's status is written")
    reported = len(_reported(crowd, "pile"))
    print(f"of {PILE} new services {reported} were reported before the edit of an old one was")
    assert reported < PILE
    kube.eventually(lambda: len(_reported(crowd, "pile")) == PILE, LIMIT, "the pile is reported too")


def test_only_an_edit_that_nobody_has_acted_on_goes_before_the_pile() -> None:
    def body(generation: int, observed: int) -> Body:
        return {"metadata": {"generation": generation}, "status": {"observedGeneration": observed}}

    assert operator._is_edited(body(3, 2))
    assert not operator._is_edited(body(3, 3)), "it is at rest"
    assert not operator._is_edited(body(1, -1)), "it is new: the schema's default"
    assert not operator._is_edited({"metadata": {"generation": 1}})


def _create(place: Place, prefix: str, count: int) -> None:
    for number in range(count):
        place.kube.create("LLMService", place.service(f"{prefix}-{number}"), place.name)


def _services(place: Place) -> list[Body]:
    return place.kube.list("LLMService", place.name)


def _reported(place: Place, prefix: str) -> list[Body]:
    """Services with a status of the operator's."""
    named = [body for body in _services(place) if body["metadata"]["name"].startswith(prefix)]
    return [body for body in named if kube.condition(body, "Ready").get("observedGeneration")]
