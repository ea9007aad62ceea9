"""A hand-written vLLM Deployment, converted, applied to a real cluster with the CPU's model swapped in, answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import target
from e2e.kubectl import Kubectl
from e2e.tests import test_models
from e2e.tests.test_first_path import ask
from e2e.tests.test_models import Origin

MANIFESTS = Path(__file__).resolve().parents[2] / "tests" / "operator" / "cli" / "manifests"
MODEL = "meta-llama/Meta-Llama-3-8B-Instruct"  # both manifests' own

origin = test_models.origin


def converted(file: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "llmservice_operator.cli.people", "convert", "--engine", "bundled"]
    done = subprocess.run([*command, "-f", str(MANIFESTS / file)], capture_output=True, text=True, check=True)
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


@pytest.mark.parametrize(
    "file", ["seed-cache.yaml", pytest.param("seed-probes.yaml", marks=pytest.mark.full)]
)
def test_a_converted_deployment_serves_under_the_names_that_it_had(
    cluster: target.Target, namespace: Kubectl, origin: Origin, file: str
) -> None:
    body = converted(file)
    name = body["metadata"]["name"]
    body["metadata"].pop("namespace")
    swapped = {
        "model": {
            "source": {"hf": {"repo": test_models.NAME, "endpoint": origin.hub.url}},
            "tokenSecretRef": None,
            "servedNames": [MODEL],
        },
        "accelerator": {"count": 0},
        "resources": {
            "requests": {"cpu": "100m", "memory": "512Mi"},
            "limits": {"cpu": None, "memory": "3Gi"},
        },
        "engine": {"gpuMemoryUtilization": 0.5, "tensorParallelSize": None},
        "cache": None,
        "template": None,
    }
    engine = cluster.manifest()["spec"]  # how this cluster runs an engine at all
    overlay = {"engine": {"image": engine["engine"]["image"]}, "template": engine.get("template")}
    namespace.apply(target.merged(target.merged(body, {"spec": swapped}), {"spec": overlay}))
    namespace("wait", "--for=condition=Ready", f"llmsvc/{name}", "--timeout=120s", timeout=130)
    service = (body["spec"].get("expose") or {}).get("service", {}).get("name", name)
    with namespace.port_forward(f"service/{service}", 0) as url:
        answer = ask(url, model=MODEL).json()
    assert "Paris" in answer["choices"][0]["message"]["content"]
