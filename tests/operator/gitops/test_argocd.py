"""The health script of the guide, in Lua 5.1 with the libraries that Argo CD gives a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from llmservice_operator.api import names
from lupa import lua51

from tests.operator.gitops import states
from tests.operator.gitops.states import Body

GUIDES = Path(__file__).resolve().parents[3] / "docs" / "guides"
SCRIPT = (GUIDES / "argocd" / "health.lua").read_text()
# What a script gets in Argo CD, as far as ours could use it: no string, io, os or package.
GIVEN = frozenset(
    {"_G", "_VERSION", "error", "ipairs", "next", "pairs", "select", "table", "tonumber", "tostring", "type"}
)

Health = Callable[[Body], dict[str, str]]


@pytest.fixture
def health() -> Health:
    def ask(body: Body) -> dict[str, str]:
        lua = lua51.LuaRuntime(register_eval=False)
        kept = lua.globals()
        for name in list(kept.keys()):
            if name not in GIVEN:
                kept[name] = None
        kept["obj"] = _table(lua, body)
        return dict(lua.execute(SCRIPT).items())

    return ask


def _table(lua: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return lua.table_from({key: _table(lua, item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return lua.table_from([_table(lua, item) for item in value])
    return value


@pytest.mark.parametrize(
    ("body", "status"), [(body, health) for body, _, health in states.TABLE.values()], ids=states.TABLE.keys()
)
def test_argo_cd_shows(health: Health, body: Body, status: str) -> None:
    assert health(body)["status"] == status


def test_argo_cd_agrees_on_every_state_of_the_judges_own_table(health: Health) -> None:
    bodies = dict(states.judges_own())
    found = {name: health(body)["status"] for name, body in bodies.items()}
    assert found == {name: states.expected(body)[1] for name, body in bodies.items()}
    assert set(found.values()) == {"Progressing", "Healthy", "Degraded", "Suspended"}


def test_the_message_is_the_reason_and_its_words(health: Health) -> None:
    assert health(states.resource(states.UP))["message"] == "ReplicasAvailable: 2 of 2 replicas available"
    assert health(states.created())["message"] == "waiting for the operator"


def test_an_object_that_was_never_looked_at_is_in_progress(health: Health) -> None:
    assert health(states.resource(None))["status"] == "Progressing"
    assert health(states.resource({"observedGeneration": 1}))["status"] == "Progressing"


def test_the_guide_installs_it_for_our_kind() -> None:
    assert f"resource.customizations.health.{names.GROUP}_{names.KIND}" in (GUIDES / "gitops.md").read_text()
