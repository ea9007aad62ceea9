"""Which pods count as ready, and how they come and go."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_operator.api import names
from llmservice_operator.metrics_api.pods import ReadyPods


def pod(uid: str = "1", service: str = "chat", ready: str = "True", **changes: Any) -> dict[str, Any]:
    metadata = {"uid": uid, "namespace": "ns", "name": f"pod-{uid}", "labels": names.labels(service)}
    status = {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": metadata | changes.get("metadata", {}), "status": status | changes.get("status", {})}


def test_a_pod_is_found_by_the_service_that_it_serves() -> None:
    known = ReadyPods()
    known.replace([pod("1"), pod("2"), pod("3", "other")])
    assert {found.uid for found in known.of("ns", "chat")} == {"1", "2"}
    assert known.of("elsewhere", "chat") == ()


def test_a_service_with_a_name_too_long_for_a_label_is_found_too() -> None:
    known = ReadyPods()
    known.put(pod("1", "x" * 100))
    assert len(known.of("ns", "x" * 100)) == 1
    assert known.of("ns", "x" * 99) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"ready": "False"},
        {"ready": "Unknown"},
        {"status": {"podIP": ""}},
        {"status": {"conditions": None}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"labels": None}},
    ],
)
def test_a_pod_that_takes_no_requests_is_not_one(changes: dict[str, Any]) -> None:
    known = ReadyPods()
    known.put(pod())
    assert len(known.of("ns", "chat")) == 1
    known.put(pod(**changes))
    assert known.of("ns", "chat") == ()


def test_a_pod_that_is_deleted_or_no_longer_listed_is_gone() -> None:
    known = ReadyPods()
    known.replace([pod("1"), pod("2")])
    known.drop(pod("1"))
    known.drop(pod("1"))
    assert [found.uid for found in known.of("ns", "chat")] == ["2"]
    known.replace([])
    assert known.of("ns", "chat") == ()


def test_a_pod_that_changes_hands_is_of_one_service_only() -> None:
    known = ReadyPods()
    known.put(pod("1"))
    known.put(pod("1", "other"))
    assert known.of("ns", "chat") == ()
    assert len(known.of("ns", "other")) == 1
