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

# Of a source tree, what an operator is made of.
PARTS = ("operator", "engine/llmservice_planner", "charts", "crds")
# The first from which every upgrade and downgrade holds. With the one before it pods stay too, but its caches' claims
# carry a storage class that was not asked for, and CacheReady then says ExpansionRefused.
OLDEST = "c98c709"
REST = 3.0  # seconds without a write
INSTANCE = "app.kubernetes.io/instance"

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
    made.stop_all()


@pytest.fixture
def place(bare: Kube) -> Iterator[Place]:
    made = conftest.empty_place(bare)
    made.claim()
    yield made
    bare.delete("Namespace", made.name)


@pytest.mark.full
@pytest.mark.parametrize("which", ["newest", "oldest"])
def test_no_pod_restarts_on_the_way_from_an_earlier_operator_and_back(
    place: Place, fleet: Fleet, tmp_path: Path, which: str
) -> None:
    earlier = unpacked(newest() if which == "newest" else oldest(), tmp_path / "earlier")
    replace_operator(place, fleet, earlier)
    serve_all(place)
    before = running(place)
    audit = replace_operator(place, fleet, ROOT)
    assert not deployments_written_while_all_are_looked_at(place, audit, before)
    edited = edit(place, before)
    audit = replace_operator(place, fleet, earlier)
    written = deployments_written_while_all_are_looked_at(place, audit, edited)
    # The oldest takes away how gpu's rollout was decided: it knows no such annotation.
    assert not written if which == "newest" else all(line.endswith("/gpu") for line in written)


def test_no_pod_restarts_for_new_defaults_and_an_edit_takes_them_up(
    place: Place, fleet: Fleet, tmp_path: Path
) -> None:
    replace_operator(place, fleet, ROOT)
    serve_all(place)
    before = running(place)
    audit = replace_operator(place, fleet, with_other_defaults(tmp_path / "other"))
    taken = place.must("LLMService", "cpu")["spec"]["rollout"]
    assert taken["pace"] == "Calm", "the schema has a new default"
    assert not deployments_written_while_all_are_looked_at(place, audit, before)
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
    pytest.skip(
        "no commit here holds another operator to upgrade from: a shallow clone? git fetch --unshallow"
    )


def oldest() -> str:
    git("cat-file", "-e", f"{OLDEST}^{{commit}}")
    return OLDEST


def unpacked(commit: str, folder: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, *PARTS))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def git(*arguments: str) -> bytes:
    """What git prints; without git, or history that goes back as far, there is nothing to upgrade from."""
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode().strip() or error
        pytest.skip(
            f"no earlier operator to upgrade from (a source archive, or a shallow clone?): git {arguments[0]}: {said}"
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
def replace_operator(place: Place, fleet: Fleet, tree: Path) -> Audit:
    """As ``helm upgrade`` does: the schema and the rights first. What the new operator does, from its start."""
    conftest.install(place.kube, tree)
    fleet.stop_all()
    audit = Audit(place.kube.cluster.audit_log)
    leader = fleet.start(program=code_of(tree))
    fleet.leader()
    said = leader.log.read_text().splitlines()[0]
    package = f"{tree}/operator/llmservice_operator/__init__.py"
    assert said == f"{package} {tree}/engine/llmservice_planner/__init__.py"
    return audit


def serve_all(place: Place, **engine: Any) -> None:
    """Every service is Ready with that in ``spec.engine``; the jobs that look models up and copy them are played."""
    specs = {name: spec | {"engine": spec.get("engine", {}) | engine} for name, spec in SERVICES.items()}
    place.kube.apply(*(place.service(name, **spec) for name, spec in specs.items() if "model" not in spec))
    for name in ("hub", "own-copy"):
        place.apply(name, **specs[name])
        look_up(place)
    if not engine:
        place.end("copy", "{}")
    for name in SERVICES:
        place.wait_ready(name)


def look_up(place: Place) -> None:
    """Play the job that looks a model up, and wait until it has been put away."""
    place.end("resolve", FACTS.message())
    kube.eventually(lambda: "resolve" not in steps(place), what="the lookup is over")


def steps(place: Place) -> set[str]:
    jobs = place.kube.list("Job", place.name)
    return {job["spec"]["template"]["spec"]["containers"][0]["args"][1] for job in jobs}


def running(place: Place) -> dict[str, Body]:
    """Of each service: its Deployment's pod template, and the UIDs of its pods."""
    return {
        name: {"template": place.must("Deployment", name)["spec"]["template"], "pods": pods(place, name)}
        for name in SERVICES
    }


def pods(place: Place, name: str) -> set[str]:
    engine = {INSTANCE: name, "app.kubernetes.io/component": "engine"}.items()
    found = place.kube.list("Pod", place.name)
    return {pod["metadata"]["uid"] for pod in found if engine <= pod["metadata"]["labels"].items()}


def deployments_written_while_all_are_looked_at(
    place: Place, audit: Audit, before: dict[str, Body]
) -> list[str]:
    """Each Service is led astray: that it is set right says that this operator has reconciled it. What ran runs on.
    The writes to Deployments, be it of an annotation, since ``audit`` began."""
    for name in SERVICES:
        place.kube.patch("Service", name, place.name, {"spec": {"selector": {INSTANCE: "nobody"}}})
    for name in SERVICES:
        kube.eventually(lambda name=name: selects(place, name), what=f"Service {name} selects its pods again")  # type: ignore[misc]
    rests(audit, place)
    assert running(place) == before
    for name in SERVICES:
        ready = kube.condition(place.must("LLMService", name), "Ready")
        assert (ready["status"], ready["reason"]) == ("True", "ReplicasAvailable"), name
    return [line for line in audit.writes(place.name) if " deployments " in line]


def selects(place: Place, name: str) -> bool:
    return bool(place.must("Service", name)["spec"]["selector"][INSTANCE] == name)


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
    """Every service rolls; what runs then. What has been copied is not copied again."""
    serve_all(place, maxModelLen=4096)
    for name in SERVICES:
        kube.eventually(lambda name=name: not pods(place, name) & before[name]["pods"], what=f"{name} rolled")  # type: ignore[misc]
    after = running(place)
    assert all(after[name]["template"] != before[name]["template"] for name in SERVICES)
    return after
