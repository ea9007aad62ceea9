"""What goes wrong says so within 30 s, other services go on, and it heals when the cause is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e import model, overlay, target
from e2e.kubectl import Kubectl, until

WITHIN = 30  # seconds


def pvc(claim: str, path: str | None = None) -> dict[str, Any]:
    return {"spec": {"model": {"source": {"pvc": {"claimName": claim, "path": path}}}}}


def ready_says(kubectl: Kubectl, reason: str, *words: str) -> str:
    """The Ready condition is False with this reason; returns its message."""
    found = until(
        lambda: kubectl.condition("smollm2", "Ready"),
        lambda ready: ready.get("status") == "False" and ready.get("reason") == reason,
        WITHIN,
    )
    message = str(found["message"])
    for word in words:
        assert word in message
    return message


def becomes_ready(kubectl: Kubectl) -> None:
    kubectl("wait", "--for=condition=Ready", "llmsvc/smollm2", "--timeout=150s", timeout=160)


@pytest.fixture
def model_copy(tmp_path: Path) -> Path:
    """A copy of the model as two shards with an index, that a test may break."""
    from safetensors.torch import load_file, save_file

    source = model.ensure()
    copy = tmp_path / "copy"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.safetensors"))
    tensors = load_file(source / "model.safetensors")
    names = sorted(tensors)
    halves = (names[: len(names) // 2], names[len(names) // 2 :])
    index: dict[str, str] = {}
    for number, half in enumerate(halves, start=1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in half}, copy / file, metadata={"format": "pt"})
        index |= dict.fromkeys(half, file)
    (copy / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    copy.chmod(0o755)
    for path in copy.iterdir():
        path.chmod(0o644)  # the engine runs as another user
    return copy


def test_a_claim_that_does_not_exist_is_named_and_heals_when_it_is_made(
    cluster: target.Target, namespace: Kubectl, served: Kubectl
) -> None:
    namespace.apply(cluster.manifest(**pvc("later")))
    ready_says(namespace, "ClaimNotFound", "later")
    assert served.condition("smollm2", "Ready")["status"] == "True"
    made = overlay.volume_and_claim(namespace.namespace, "later", model.ensure())
    namespace.apply(*made)
    try:
        becomes_ready(namespace)
        namespace("delete", "llmsvc", "smollm2", "--timeout=30s")
    finally:
        namespace("delete", "pvc/later", f"pv/{namespace.namespace}-later", "--timeout=60s")


def test_a_path_without_a_model_is_quoted_from_the_engines_report(
    cluster: target.Target, namespace: Kubectl
) -> None:
    namespace.apply(cluster.manifest(**pvc("smollm2", "no/such/folder")))
    ready_says(namespace, "ModelNotFound", "no/such/folder")
    failure = namespace.get("llmsvc", "smollm2")["status"]["lastFailure"]
    assert (failure["code"], failure["exitCode"]) == ("ModelNotFound", 1)
    namespace.apply(cluster.manifest())
    becomes_ready(namespace)


def test_a_missing_shard_is_named_and_heals_when_it_is_back(
    cluster: target.Target, namespace: Kubectl, model_copy: Path
) -> None:
    shard = model_copy / "model-00002-of-00002.safetensors"
    away = shard.rename(model_copy.parent / "away")
    namespace.apply(*overlay.volume_and_claim(namespace.namespace, "copy", model_copy))
    namespace.apply(cluster.manifest(**pvc("copy")))
    try:
        ready_says(namespace, "WeightsIncomplete", shard.name)
        away.rename(shard)
        becomes_ready(namespace)
        namespace("delete", "llmsvc", "smollm2", "--timeout=30s")
    finally:
        namespace("delete", "pvc/copy", f"pv/{namespace.namespace}-copy", "--timeout=60s")


def test_a_bad_edit_leaves_the_old_pods_serving(cluster: target.Target, namespace: Kubectl) -> None:
    namespace.apply(cluster.manifest())
    becomes_ready(namespace)
    namespace.apply(cluster.manifest(**pvc("smollm2", "no/such/folder")))
    ready_says(namespace, "ModelNotFound", "no/such/folder")
    assert namespace.condition("smollm2", "Available")["status"] == "True"
