"""The table of cases names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = re.findall(r"^\| ([A-Z][\w–]*) \|.*\| ([^|]*) \|$", (ROOT / "docs" / "cases.md").read_text(), re.M)
TESTS = {
    name
    for folder in ("tests", "e2e/tests")
    for file in (ROOT / folder).rglob("test_*.py")
    for name in re.findall(r"^\s*(?:async )?def (test_\w+)", file.read_text(), re.M)
}


@pytest.mark.parametrize(("case", "named"), ROWS, ids=[case for case, _ in ROWS])
def test_every_test_that_a_case_names_exists(case: str, named: str) -> None:
    names = re.findall(r"`(test_\w+)`", named)
    assert names, f"{case} names no test"
    assert not set(names) - TESTS


def test_the_table_has_rows() -> None:
    assert len(ROWS) > 30
