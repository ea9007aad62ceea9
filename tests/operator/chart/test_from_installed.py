"""`examples/from/` on a real API server with the optional kinds: taken as written, their children as rendered."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from llmservice_operator.api import compare, spec
from llmservice_operator.live import kinds

from e2e.cluster import optional_crds
from tests.operator.chart.conftest import Kubectl
from tests.operator.desired.originals import FILES, children, named

Objects = list[dict[str, Any]]


@pytest.fixture(scope="module")
def server(installed: Kubectl) -> Iterator[Kubectl]:
    """kubectl, where Prometheus operator's, Gateway API's and KEDA's kinds are served."""
    files = optional_crds.ensure()
    for name, file in files.items():
        installed("apply", "--server-side", "-f", str(file))
        installed("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    for namespace in {child["metadata"]["namespace"] for file in FILES for child in children(file)}:
        installed("create", "namespace", namespace, check=False)
    yield installed
    for name in files:
        installed("delete", "crd", name)


def answered(done: subprocess.CompletedProcess[str]) -> Objects:
    answer = json.loads(done.stdout)
    return list(answer["items"]) if answer["kind"] == "List" else [answer]


@pytest.mark.parametrize("file", FILES, ids=named)
def test_file_is_taken_as_it_is_written_and_parses_with_the_servers_defaults(
    server: Kubectl, file: Path
) -> None:
    done = server("apply", "--dry-run=server", "--validate=strict", "-o", "json", "-f", str(file))
    objects = answered(done)
    assert len(objects) == len(list(yaml.safe_load_all(file.read_text())))
    assert "Warning" not in done.stderr
    for body in objects:
        if body["kind"] == "LLMService":
            spec.parse(body)


@pytest.mark.parametrize("file", FILES, ids=named)
def test_children_are_kept_by_the_server_as_they_were_rendered(server: Kubectl, file: Path) -> None:
    rendered = children(file)
    given = {"apiVersion": "v1", "kind": "List", "items": list(rendered)}
    how = ("--server-side", "--dry-run=server", "--field-manager=llmservice-operator", "-o", "json")
    kept = answered(server("apply", *how, "-f", "-", given=given))
    assert len(kept) == len(rendered)
    for child, live in zip(rendered, kept, strict=True):
        assert compare.differs(child, live) is None


def test_every_kind_that_the_operator_writes_was_among_them() -> None:
    rendered = {child["kind"] for file in FILES for child in children(file)}
    assert set(kinds.CHILDREN) - rendered == {kinds.NETWORK.kind}, "no original has a NetworkPolicy"
