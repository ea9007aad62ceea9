"""Whose an object is decides whether it may be written."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_operator.api import names
from llmservice_operator.live import ownership
from llmservice_operator.live.ownership import Owner


def child(*, owner: dict[str, Any] | None = None, labels: dict[str, str] | None = None) -> dict[str, Any]:
    references = [] if owner is None else [owner | {"controller": True}]
    return {"metadata": {"name": "chat", "labels": labels or {}, "ownerReferences": references}}


@pytest.mark.parametrize(
    ("live", "whose"),
    [
        (child(owner={"kind": names.KIND, "name": "chat", "uid": "u1"}), Owner.US),
        (child(owner={"kind": names.KIND, "name": "chat", "uid": "u0"}), Owner.PREDECESSOR),
        (
            child(owner={"kind": names.KIND, "name": "code", "uid": "u2"}, labels=names.labels("chat")),
            Owner.OTHER,
        ),
        (
            child(owner={"kind": "StatefulSet", "name": "db", "uid": "u9"}, labels=names.labels("chat")),
            Owner.OTHER,
        ),
        (child(labels=names.labels("chat")), Owner.US),
        (child(labels=names.labels("code")), Owner.OTHER),
        (child(), Owner.OTHER),
    ],
    ids=[
        "ours",
        "namesake's",
        "sibling's",
        "stranger's",
        "orphaned on purpose",
        "sibling's orphan",
        "hand-made",
    ],
)
def test_whose_is_it(live: dict[str, Any], whose: Owner) -> None:
    assert ownership.of(live, "chat", "u1") is whose


def test_a_person_reads_whose_it_is() -> None:
    assert ownership.described(child(owner={"kind": "StatefulSet", "name": "db"})) == 'StatefulSet "db"'
