"""Objects in, children out. `UPDATE_GOLDEN=1` writes what comes out; read the difference before you commit it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from llmservice_operator.api import spec
from llmservice_operator.api.seen import Seen

from tests.operator.desired import world

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


class Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@pytest.mark.parametrize(
    "case", sorted(GOLDEN.glob("*.in.yaml")), ids=lambda path: path.name.removesuffix(".in.yaml")
)
def test_children_are_the_recorded_ones(case: Path) -> None:
    body, *claims = yaml.safe_load_all(case.read_text())
    wanted = spec.parse(body)
    seen = Seen(claims={claim["metadata"]["name"]: claim for claim in claims})
    children = world.render_all(wanted, seen).children
    recorded = case.with_name(case.name.replace(".in.", ".out."))
    if os.environ.get("UPDATE_GOLDEN"):
        recorded.write_text(yaml.dump_all(children, Dumper=Plain, width=110))
    assert list(yaml.safe_load_all(recorded.read_text())) == list(children)


def test_no_recorded_children_are_left_without_their_object() -> None:
    def cases(kind: str) -> set[str]:
        return {path.name.removesuffix(f".{kind}.yaml") for path in GOLDEN.glob(f"*.{kind}.yaml")}

    assert cases("out") == cases("in")
