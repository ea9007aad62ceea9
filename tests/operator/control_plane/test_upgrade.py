"""An operator that takes another's place restarts no pod: one from the history, and one with other defaults.

Each operator is a process that runs the code of its own source tree, and each brings its own schema and rights.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import launcher
from tests.operator.control_plane import conftest, kube
from tests.operator.control_plane.audit import Audit
from tests.operator.control_plane.conftest import ROOT, Place
from tests.operator.control_plane.fleet import Fleet
from tests.operator.control_plane.kube import Body, Kube
from tests.operator.control_plane.test_cache import FACTS, HUB

PARTS = (
    "operator",
    "engine/llmservice_planner",
    "charts",
    "crds",
)  # of a source tree: what an operator is made of
OLDEST = "954c501"  # the first with every field of the resource: from here on every upgrade and downgrade is promised
REST = 3.0  # seconds without a write

SERVICES: dict[str, dict[str, Any]] = {
    "cpu": {"rollout": {"minReady": "1s"}},
    "gpu": {
        "accelerator": {"count": 2},
        "engine": {"args": ["--seed", "7"], "env": [{"name": "LEVEL", "value": "1"}]},
        "resources": {"limits": {"memory": "64Gi"}},
    },
    "hub": {"model": HUB},
    "own-copy": {"model": HUB, "cache": {"mode": "Ephemeral", "size": "10Gi"}},
    "scaled": {"replicas": None, "autoscaling": {"minReplicas": 2, "maxReplicas": 8}},
    "sidecar": {
        "template": {
            "metadata": {"labels": {"team": "search"}},
            "spec": {"containers": [{"name": "proxy", "image": "registry.example/proxy:1"}]},
        }
    },
    "vllm": {"engine": {"runtime": "VLLM", "image": "registry.example/vllm:1"}},
}


@pytest.fixture(scope="module")
def bare() -> Iterator[Kube]:
    """A cluster of its own: the schema and the rights change."""
    name = f"test-upgrade-{os.getpid()}"
    yield conftest.prepared(launcher.up(name, "control-plane"))
    launcher.down(name)


@pytest.fixture
def fleet(bare: Kube, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(bare, tmp_path)
    yield made
    made.kill_all()


@pytest.fixture
def place(bare: Kube) -> Iterator[Place]:
    made = conftest.empty_place(bare)
    made.claim()
    yield made
    bare.delete("Namespace", made.name)


@pytest.mark.parametrize("which", ["newest", pytest.param("oldest", marks=pytest.mark.full)])
def test_no_pod_restarts_on_the_way_from_an_earlier_operator_and_back(
    place: Place, fleet: Fleet, tmp_path: Path, which: str
) -> None:
    earlier = unpacked(newest() if which == "newest" else oldest(), tmp_path / "earlier")
    replace_operator(place, fleet, earlier)
    serve_all(place)
    before = running(place)
    replace_operator(place, fleet, ROOT)
    assert_all_are_looked_at_and_left_alone(place, before)
    edited = edit(place, before)
    replace_operator(place, fleet, earlier)
    assert_all_are_looked_at_and_left_alone(place, edited)


def test_no_pod_restarts_for_new_defaults_and_an_edit_takes_them_up(
    place: Place, fleet: Fleet, tmp_path: Path
) -> None:
    replace_operator(place, fleet, ROOT)
    serve_all(place)
    before = running(place)
    replace_operator(place, fleet, with_other_defaults(tmp_path / "other"))
    assert place.must("LLMService", "cpu")["spec"]["rollout"]["pace"] == "Calm", (
        "the schema has a new default"
    )
    assert_all_are_looked_at_and_left_alone(place, before)
    grace = before["cpu"]["template"]["spec"]["terminationGracePeriodSeconds"]
    pod = edit(place, before)["cpu"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == grace + 10
    assert pod["containers"][0]["readinessProbe"]["periodSeconds"] == 7
    assert {"name": "tmp", "emptyDir": {"sizeLimit": "3Gi"}} in pod["volumes"]


# --- source trees ----------------------------------------------------------------------------------------------
def newest() -> str:
    """The newest commit whose operator is another than the one under test."""
    for commit in git("log", "--format=%H", "--", *PARTS).decode().split():
        if subprocess.run(["git", "diff", "--quiet", commit, "--", *PARTS], cwd=ROOT, check=False).returncode:
            return commit
    pytest.skip("no commit with another operator: a shallow clone holds no earlier one to upgrade from")


def oldest() -> str:
    if subprocess.run(["git", "cat-file", "-e", f"{OLDEST}^{{commit}}"], cwd=ROOT, check=False).returncode:
        pytest.skip(f"no commit {OLDEST}: a shallow clone or rewritten history holds no such operator")
    return OLDEST


def unpacked(commit: str, folder: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, *PARTS))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(
            f"no git history here (a source archive?), so no earlier operator to upgrade from: {error}"
        )


def with_other_defaults(folder: Path) -> Path:
    """The tree under test, but its templates get other values, and its schema one more field with a default."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    code = folder / "operator" / "llmservice_operator"
    template, schema = code / "desired" / "template.py", code / "api" / "scaling.py"
    patch(template, '"failureThreshold": 2, "periodSeconds": 5', '"failureThreshold": 2, "periodSeconds": 7')
    patch(template, '{"name": "tmp", "emptyDir": {}}', '{"name": "tmp", "emptyDir": {"sizeLimit": "3Gi"}}')
    patch(code / "api" / "contract.py", "EXIT_SECONDS = 15", "EXIT_SECONDS = 25")
    added = '    pace: Literal["Calm", "Quick"] = Field(default="Calm", description="Pace.")\n'
    patch(schema, "    drain_timeout: Duration = Field(", added + "    drain_timeout: Duration = Field(")
    subprocess.run([sys.executable, *code_of(folder, "llmservice_operator.api.crd")], check=True)
    return folder


def patch(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
    file.write_text(text.replace(old, new))


def code_of(tree: Path, module: str = "llmservice_operator") -> tuple[str, str]:
    """That module of the tree's code as Python's arguments; it prints where the code lies."""
    folders = [str(tree / "operator"), str(tree / "engine")]
    return "-c", (
        f"import sys; sys.path[:0] = {folders}\n"
        "import runpy, llmservice_operator, llmservice_planner\n"
        "print(llmservice_operator.__file__, llmservice_planner.__file__, flush=True)\n"
        f"runpy.run_module('{module}', run_name='__main__', alter_sys=True)"
    )


# --- what runs -------------------------------------------------------------------------------------------------
def replace_operator(place: Place, fleet: Fleet, tree: Path) -> None:
    """As ``helm upgrade`` does: the schema and the rights first."""
    conftest.install(place.kube, tree)
    fleet.stop_all()
    leader = fleet.start(program=code_of(tree))
    fleet.leader()
    said = leader.log.read_text().splitlines()[0]
    package = f"{tree}/operator/llmservice_operator/__init__.py"
    assert said == f"{package} {tree}/engine/llmservice_planner/__init__.py"


def serve_all(place: Place) -> None:
    for name, spec in SERVICES.items():
        place.apply(name, **spec)
        if "model" in spec:
            place.end("resolve", FACTS.message())
        if name == "hub":
            place.end("copy", "{}")
            kube.eventually(lambda: len(place.kube.list("Job", place.name)) == 1, what="the lookup is over")
    for name in SERVICES:
        place.wait_ready(name)


def running(place: Place) -> dict[str, Body]:
    """Of each service: its Deployment's generation and template, and the UIDs of its pods."""
    return {
        name: {
            "generation": deployment["metadata"]["generation"],
            "template": deployment["spec"]["template"],
            "pods": pods(place, name),
        }
        for name in SERVICES
        for deployment in [place.must("Deployment", name)]
    }


def pods(place: Place, name: str) -> set[str]:
    engine = {"app.kubernetes.io/instance": name, "app.kubernetes.io/component": "engine"}.items()
    found = place.kube.list("Pod", place.name)
    return {pod["metadata"]["uid"] for pod in found if engine <= pod["metadata"]["labels"].items()}


def assert_all_are_looked_at_and_left_alone(place: Place, before: dict[str, Body]) -> None:
    """Each service's Service is taken away: that it comes back says that this operator has reconciled it."""
    audit = Audit(place.kube.cluster.audit_log)
    for name in SERVICES:
        place.kube.delete("Service", name, place.name)
    for name in SERVICES:
        place.wait_for("Service", name)
    rests(audit, place)
    assert running(place) == before
    for name in SERVICES:
        ready = kube.condition(place.must("LLMService", name), "Ready")
        assert (ready["status"], ready["reason"]) == ("True", "ReplicasAvailable"), name
    written = [line for line in audit.writes(place.name) if " deployments " in line]
    assert not written, "not even an annotation"


def rests(audit: Audit, place: Place) -> None:
    seen = (-1, 0.0)

    def still() -> bool:
        nonlocal seen
        count = len(audit.writes(place.name))
        if count != seen[0]:
            seen = (count, time.monotonic())
        return time.monotonic() - seen[1] > REST

    kube.eventually(still, 30, "the operator writes nothing more")


def edit(place: Place, before: dict[str, Body]) -> dict[str, Body]:
    """Every service rolls; what runs then."""
    for name, spec in SERVICES.items():
        place.apply(name, **spec | {"engine": spec.get("engine", {}) | {"maxModelLen": 4096}})
    for name in SERVICES:
        place.wait_ready(name)
        kube.eventually(lambda name=name: not pods(place, name) & before[name]["pods"], what=f"{name} rolled")  # type: ignore[misc]
    after = running(place)
    assert all(after[name]["template"] != before[name]["template"] for name in SERVICES)
    return after
