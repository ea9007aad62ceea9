"""Quantities and durations."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmservice_operator.api import durations, quantities


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("500m", Fraction(1, 2)), ("1Ki", 1024), ("1k", 1000), ("1.5Gi", 1610612736), ("2e3", 2000),
     ("1E", 10**18), ("1E3", 1000), (".5", Fraction(1, 2)), ("5.", 5), (7, 7), ("100n", Fraction(1, 10**7))],
)  # fmt: skip
def test_quantity_has_its_value(text: int | str, value: Fraction | int) -> None:
    assert quantities.parse(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "--1", "1e999", "one"])
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        quantities.parse(text)


@given(st.integers(min_value=0, max_value=10**15))
def test_milli_units_are_a_thousandth(count: int) -> None:
    assert quantities.equal(f"{count * 1000}m", count)


@pytest.mark.parametrize(
    ("text", "seconds"), [("120s", 120), ("15m", 900), ("1h30m", 5400), ("1h1m1s", 3661)]
)
def test_duration_has_its_seconds(text: str, seconds: int) -> None:
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "1d", "30m1h", "-5s", "1.5h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        durations.seconds(text)
