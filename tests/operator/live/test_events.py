"""Events read and written, against an API server that is a table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from llmservice_operator.live import events
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.events import EventReader, Recorder

POD = {"metadata": {"name": "llama-1", "namespace": "team", "uid": "p-1"}}
SERVICE = {"metadata": {"name": "llama", "namespace": "team", "uid": "u-1", "resourceVersion": "7"}}
PATH = "/api/v1/namespaces/team/events"
GOING = ApiError(403, "Forbidden", "namespace is being terminated", ("NamespaceTerminating",))


@dataclass(frozen=True)
class News:
    type: str = "Warning"
    reason: str = "OOMKilled"
    message: str = "container engine ran out of memory"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Server:
    """Events by name, and every request that was made."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.queries: list[Any] = []
        self.fails: ApiError | None = None
        self.answer: Callable[[], list[dict[str, Any]]] = list
        self.at_once = self.most_at_once = 0
        self.slow = 0.0

    async def get(self, path: str, query: Any = None) -> dict[str, Any]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.slow)
            self._note("GET", path)
            self.queries.append(query)
            if path == PATH:
                return {"items": self.answer()}
            return self._found(path)
        finally:
            self.at_once -= 1

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._note("POST", path)
        name = body["metadata"]["name"]
        if name in self.objects:
            raise ApiError(409, "AlreadyExists", f'events "{name}" already exists')
        self.objects[name] = dict(body)
        return self.objects[name]

    async def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._note("PATCH", path)
        found = self._found(path)
        found.update(body)
        return found

    def _note(self, verb: str, path: str) -> None:
        self.calls.append((verb, path))
        if self.fails is not None:
            raise self.fails

    def _found(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self.objects:
            raise ApiError(404, "NotFound", f'events "{name}" not found')
        return self.objects[name]

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.calls]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(server: Server, clock: Clock) -> EventReader:
    return EventReader(cast(Client, server), clock)


@pytest.fixture
def recorder(server: Server, clock: Clock) -> Recorder:
    return make_recorder(server, clock)


def make_recorder(server: Server, clock: Clock) -> Recorder:
    def now() -> datetime:
        return datetime.fromtimestamp(clock(), UTC)

    return Recorder(cast(Client, server), clock, now, "operator-0")


def event(reason: str, at: str, **fields: Any) -> dict[str, Any]:
    return {
        "reason": reason,
        "lastTimestamp": at,
        "metadata": {"name": reason, "managedFields": [1]},
    } | fields


# --- reading -------------------------------------------------------------------------------------------------
async def test_events_come_by_uid_with_the_newest_last(server: Server, reader: EventReader) -> None:
    late = {"lastTimestamp": None, "eventTime": "2026-01-01T12:00:01.500000Z"}
    server.answer = lambda: [
        event("Second", "2026-01-01T12:00:01Z"),
        event("Third", "") | late,
        event("First", "2026-01-01T12:00:00Z", type="Normal"),
    ]
    found = await reader.about([POD])
    assert [one["reason"] for one in found["p-1"]] == ["First", "Second", "Third"]
    assert "managedFields" not in found["p-1"][0]["metadata"]
    assert server.queries == [{"fieldSelector": "involvedObject.uid=p-1", "limit": "50"}]


async def test_an_answer_is_good_for_ten_seconds(server: Server, reader: EventReader, clock: Clock) -> None:
    await reader.about([POD])
    clock.now += 9.9
    await reader.about([POD, POD])
    assert len(server.calls) == 1
    clock.now += 0.2
    await reader.about([POD])
    assert len(server.calls) == 2


async def test_without_an_answer_the_last_one_stands(
    server: Server, reader: EventReader, clock: Clock
) -> None:
    server.fails = ApiError(403, "Forbidden", "no")
    assert await reader.about([POD]) == {"p-1": ()}
    await reader.about([POD])
    assert len(server.calls) == 1, "a refusal is not asked for again and again"
    server.fails, clock.now = None, clock.now + 11
    server.answer = lambda: [event("FailedMount", "2026-01-01T12:00:00Z")]
    assert len((await reader.about([POD]))["p-1"]) == 1
    server.fails, clock.now = ApiError(None, "Unreachable", "gone"), clock.now + 11
    assert len((await reader.about([POD]))["p-1"]) == 1


async def test_a_server_that_does_not_answer_holds_nobody_up(
    server: Server, reader: EventReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PATIENCE", 0.01)
    server.slow = 5
    assert await reader.about([POD]) == {"p-1": ()}


async def test_few_requests_are_in_flight(server: Server, reader: EventReader) -> None:
    server.slow = 0.001
    pods = [{"metadata": {**POD["metadata"], "uid": f"p-{number}"}} for number in range(20)]
    assert len(await reader.about(pods)) == 20
    assert server.most_at_once == events.AT_ONCE


async def test_what_nobody_asks_about_is_forgotten(server: Server, reader: EventReader, clock: Clock) -> None:
    await reader.about([POD])
    clock.now += events.FORGOTTEN
    await reader.about([])
    assert reader._answers == {}


async def test_an_object_without_a_uid_is_not_asked_about(server: Server, reader: EventReader) -> None:
    assert await reader.about([{"metadata": {"name": "x", "namespace": "team"}}]) == {}
    assert server.calls == []


# --- writing -------------------------------------------------------------------------------------------------
async def test_news_is_an_event_of_the_object(server: Server, recorder: Recorder) -> None:
    await recorder.tell(SERVICE, [News()])
    (made,) = server.objects.values()
    assert made["involvedObject"] == {
        "apiVersion": "serving.llmservice.dev/v1alpha1", "kind": "LLMService", "name": "llama",
        "namespace": "team", "uid": "u-1", "resourceVersion": "7",
    }  # fmt: skip
    assert (made["type"], made["reason"], made["message"]) == ("Warning", "OOMKilled", News().message)
    assert (made["source"]["component"], made["reportingComponent"]) == ("llmservice-operator",) * 2
    assert (made["count"], made["firstTimestamp"], made["lastTimestamp"]) == (
        1,
        *["1970-01-01T00:16:40Z"] * 2,
    )
    assert server.calls == [("POST", PATH)]


async def test_the_same_news_is_counted_up_after_five_minutes_and_not_before(
    server: Server, recorder: Recorder, clock: Clock
) -> None:
    await recorder.tell(SERVICE, [News(), News()])
    clock.now += 299
    await recorder.tell(SERVICE, [News()])
    assert server.verbs == ["POST"]
    clock.now += 1
    await recorder.tell(SERVICE, [News()])
    assert server.verbs == ["POST", "PATCH"]
    (made,) = server.objects.values()
    assert (made["count"], made["lastTimestamp"]) == (2, "1970-01-01T00:21:40Z")


async def test_another_operator_counts_on(server: Server, recorder: Recorder, clock: Clock) -> None:
    await recorder.tell(SERVICE, [News()])
    await make_recorder(server, clock).tell(SERVICE, [News()])
    assert server.verbs == ["POST", "POST", "GET", "PATCH"]
    assert [made["count"] for made in server.objects.values()] == [2]


async def test_an_event_that_has_expired_is_made_anew(
    server: Server, recorder: Recorder, clock: Clock
) -> None:
    await recorder.tell(SERVICE, [News()])
    server.objects.clear()
    clock.now += 3600
    await recorder.tell(SERVICE, [News()])
    assert server.verbs == ["POST", "PATCH", "POST"]
    assert [made["count"] for made in server.objects.values()] == [1]


async def test_a_flood_is_cut_and_others_are_not_hurt(
    server: Server, recorder: Recorder, clock: Clock
) -> None:
    await recorder.tell(SERVICE, [News(message=f"m{number}") for number in range(30)])
    assert len(server.objects) == events.BURST
    await recorder.tell(POD, [News()])
    assert len(server.objects) == events.BURST + 1
    clock.now += 30
    await recorder.tell(SERVICE, [News(message="x"), News(message="y")])
    assert len(server.objects) == events.BURST + 2
    clock.now += 3600
    await recorder.tell(SERVICE, [])
    assert recorder._buckets == {}


@pytest.mark.parametrize(
    "error",
    [GOING, ApiError(403, "Forbidden", 'User "x" cannot create events'), ApiError(409, "Conflict", "busy"),
     ApiError(500, "Internal", "etcd"), ApiError(None, "Unreachable", "gone")],
    ids=["the namespace goes", "no right", "a conflict", "a fault", "no answer"],
)  # fmt: skip
async def test_telling_never_fails(server: Server, recorder: Recorder, error: ApiError) -> None:
    server.fails = error
    await recorder.tell(SERVICE, [News(), News("Normal", "Copied", "done")])
    assert server.objects == {}


async def test_a_long_message_is_cut_to_what_the_api_takes(server: Server, recorder: Recorder) -> None:
    await recorder.tell({"metadata": SERVICE["metadata"] | {"name": "a" * 253}}, [News(message="x" * 5000)])
    (made,) = server.objects.values()
    assert len(made["message"]) == 1024
    assert len(made["metadata"]["name"]) <= 253


def test_names_differ_by_object_type_reason_and_message() -> None:
    other = {"metadata": {**SERVICE["metadata"], "uid": "u-2"}}
    given = [(SERVICE, News()), (other, News()), (SERVICE, News("Normal")), (SERVICE, News(reason="A")),
             (SERVICE, News(message="b"))]  # fmt: skip
    assert len({events.event_name(body, news) for body, news in given}) == 5
