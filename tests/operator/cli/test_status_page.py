"""``llmservice status``: everything that an object's status says, on one page."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_operator.cli.people import answers, showing

GIB = 2**30
STATUS: dict[str, Any] = {
    "observedGeneration": 3,
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "InsufficientGPUMemory", "message": "weights 15,317 MiB " * 12},
        {"type": "MemoryFits", "status": "False", "reason": "DoesNotFit", "message": "[red] is no colour here"},
    ],
    "replicas": 2,
    "readyReplicas": 1,
    "updatedReplicas": 2,
    "availableReplicas": 1,
    "endpoint": {"url": "http://chat.team.svc:8000/v1", "models": ["org/m", "chat"]},
    "model": {"revision": "c0ffee", "weightBytes": 16_060_000_000, "parameters": 8_030_000_000, "dtype": "bfloat16",
              "contextLength": 8192},
    "cache": {"claimName": "llm-cache-m", "bytesDone": 4_000_000_000, "bytesTotal": 16_000_000_000},
    "memory": {"verdict": "DoesNotFit", "weights": 15 * GIB, "kvCache": GIB, "activations": GIB, "overhead": GIB,
               "available": 14 * GIB, "kvTokens": 8192, "source": "Estimated"},
    "startup": {"deadlineSeconds": 441, "basis": "Derived", "lastLoadSeconds": 93},
    "rollout": {"strategy": "Recycle", "reason": "each replica holds 1 nvidia.com/gpu"},
    "lastFailure": {"pod": "chat-x", "code": "InsufficientGPUMemory", "message": "needs 17 GiB", "exitCode": 3,
                    "time": "2026-01-01T12:00:00Z"},
}  # fmt: skip


def page(capsys: pytest.CaptureFixture[str], events: Any = (), **status: Any) -> str:
    metadata = {"name": "chat", "namespace": "team", "generation": 3}
    showing.show({"metadata": metadata, "status": status}, events)
    return capsys.readouterr().out


def event(message: str, minute: int, about: str = "", **more: Any) -> dict[str, Any]:
    return {"metadata": {}, "reason": "Seen", "message": message, "about": about,
            "lastTimestamp": f"2026-01-01T12:{minute:02}:00Z", **more}  # fmt: skip


def test_every_figure_is_on_the_page_and_it_fits(capsys: pytest.CaptureFixture[str]) -> None:
    told = page(capsys, **STATUS)
    assert max(map(len, told.splitlines())) <= answers.WIDTH
    assert not any(line != line.rstrip() for line in told.splitlines())
    words = " ".join(told.split())
    for said in (
        "LLMService team/chat, generation 3",
        "Ready False InsufficientGPUMemory weights 15,317 MiB",
        "[red] is no colour here",
        "2: 1 ready, 2 updated, 1 available",
        "http://chat.team.svc:8000/v1",
        "org/m, chat",
        "revision c0ffee, 16.1 GB of weights, 8,030,000,000 parameters, bfloat16, context 8,192 tokens",
        "DoesNotFit (Estimated): weights 15.0 GiB, KV cache 1.0 GiB",
        "claim llm-cache-m: 4.0 GB of 16.0 GB (25 %)",
        "may take 441 s (Derived); the last start took 93 s",
        "Recycle: each replica holds 1 nvidia.com/gpu",
        "chat-x: InsufficientGPUMemory, exit code 3: needs 17 GiB",
    ):
        assert said in words


def test_what_is_not_there_takes_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    told = page(capsys, observedGeneration=3, conditions=STATUS["conditions"][1:])
    assert "memory" not in told
    assert len(told.splitlines()) == 4


def test_a_status_of_an_older_generation_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "has seen generation 2 only" in page(capsys, **{**STATUS, "observedGeneration": 2})


def test_an_object_that_no_operator_has_seen_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is it running?" in page(capsys, observedGeneration=-1)


def test_of_events_that_say_the_same_the_last_is_shown_and_the_newest_come_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events = [
        event("b", 1),
        event("a", 0, "pod"),
        event("a", 5, "pod", count=4),
        *(event(f"n{n}", n + 10) for n in range(7)),
    ]
    told = page(capsys, showing.newest(events), **STATUS)
    assert "a (×4)" in told
    assert len(showing.newest(events)) == showing.EVENTS
    assert told.splitlines()[-1].endswith("n6")
