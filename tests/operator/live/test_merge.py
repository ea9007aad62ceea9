"""Merge patches: applied by RFC 7386 they give exactly what was wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from llmservice_operator.live import merge

LEAVES = st.one_of(
    st.integers(0, 3), st.booleans(), st.sampled_from(["x", "y"]), st.lists(st.integers(0, 2), max_size=2)
)
NAMES = st.sampled_from(["a", "b", "c"])
OBJECTS = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3),
    lambda below: st.dictionaries(NAMES, st.one_of(LEAVES, below), max_size=3),
    max_leaves=12,
)


def applied(patch: Mapping[str, Any], to: Any) -> dict[str, Any]:
    """RFC 7386, section 2."""
    target = dict(to) if isinstance(to, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, Mapping):
            target[key] = applied(value, target.get(key))
        else:
            target[key] = value
    return target


@given(OBJECTS, OBJECTS)
def test_a_patch_turns_before_into_after(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert applied(merge.patch(before, after), before) == after


@given(OBJECTS)
def test_nothing_is_written_where_nothing_changed(status: dict[str, Any]) -> None:
    assert merge.patch(status, status) == {}


def test_conditions_are_replaced_whole_and_what_is_absent_is_removed() -> None:
    before = {
        "conditions": [{"type": "Ready"}, {"type": "Stalled"}],
        "lastFailure": {"code": "X"},
        "replicas": 1,
    }
    after = {"conditions": [{"type": "Ready"}], "replicas": 1}
    assert merge.patch(before, after) == {"conditions": [{"type": "Ready"}], "lastFailure": None}
