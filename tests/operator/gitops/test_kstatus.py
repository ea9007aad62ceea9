"""What kstatus itself (Flux, Helm's --wait, kpt) concludes: its own code, from ``e2e/cluster/go/kstatus``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from e2e.cluster import build
from tests.operator.gitops import states
from tests.operator.gitops.states import Body


@pytest.fixture(scope="session")
def kstatus() -> Path:
    return build.ensure(("kstatus",))["kstatus"] / "kstatus"


def concluded(kstatus: Path, bodies: Sequence[Body]) -> list[str]:
    given = "\n".join(json.dumps(body) for body in bodies)
    done = subprocess.run([kstatus], input=given, text=True, capture_output=True, check=True, timeout=30)
    return [json.loads(line)["status"] for line in done.stdout.splitlines()]


def test_kstatus_concludes_what_the_guide_says(kstatus: Path) -> None:
    found = concluded(kstatus, [body for body, _, _ in states.TABLE.values()])
    assert dict(zip(states.TABLE, found, strict=True)) == {
        name: status for name, (_, status, _) in states.TABLE.items()
    }


def test_kstatus_agrees_on_every_state_of_the_judges_own_table(kstatus: Path) -> None:
    bodies = dict(states.judges_own())
    found = dict(zip(bodies, concluded(kstatus, list(bodies.values())), strict=True))
    assert found == {name: states.expected(body)[0] for name, body in bodies.items()}
    assert set(found.values()) == {"InProgress", "Current", "Failed"}


def test_what_is_being_deleted_is_terminating_whatever_it_was(kstatus: Path) -> None:
    assert set(concluded(kstatus, list(states.DELETED.values()))) == {"Terminating"}


def test_without_the_default_of_the_schema_a_new_object_would_count_as_done(kstatus: Path) -> None:
    assert concluded(kstatus, [states.resource(None)]) == ["Current"]
    assert states.created()["status"] == {"observedGeneration": -1}


def test_what_is_no_object_is_refused_by_its_number(kstatus: Path) -> None:
    done = subprocess.run([kstatus], input="{}{", text=True, capture_output=True, check=False, timeout=30)
    assert done.returncode == 1
    assert "object 1" in done.stderr
