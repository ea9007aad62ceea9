"""Names and labels of children, for any name that the API server lets an object have."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from llmservice_operator.api import names

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
label = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
object_names = st.lists(label, min_size=1, max_size=5).map(".".join).filter(lambda name: len(name) <= 253)
suffixes = st.from_regex(r"([0-9a-f]{10})?", fullmatch=True)


@given(object_names, suffixes)
def test_child_is_a_dns_1035_label_of_at_most_63_characters(name: str, suffix: str) -> None:
    made = names.child(name, suffix)
    assert len(made) <= 63
    assert DNS_1035.fullmatch(made)
    assert made.endswith(suffix)


@given(object_names, object_names)
def test_two_objects_never_share_a_child(one: str, other: str) -> None:
    assert (names.child(one) == names.child(other)) == (one == other)


@given(object_names)
def test_every_label_is_valid(name: str) -> None:
    for value in names.labels(name).values():
        assert len(value) <= 63
        assert LABEL_VALUE.fullmatch(value)


@given(object_names)
def test_selector_is_a_part_of_the_labels(name: str) -> None:
    assert names.selector(name).items() <= names.labels(name).items()


def test_plain_name_is_kept_as_it_is() -> None:
    assert names.child("smollm2") == "smollm2"
    assert names.child("smollm2", "0123456789") == "smollm2-0123456789"


def test_dotted_name_cannot_take_the_child_of_a_dashed_one() -> None:
    assert names.child("llama-3.2").startswith("llama-3-2-")
    assert names.child("llama-3.2") != names.child("llama-3-2")


def test_longest_name_keeps_its_readable_beginning() -> None:
    assert names.child("l" * 63) == "l" * 63
    assert names.child("l" * 64).startswith("llllllll")
    assert len(names.child("l" * 63, "0123456789")) == 63
