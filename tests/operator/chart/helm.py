"""Helm as a person uses it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import build

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "llmservice-operator"
NAMESPACE = "llmservice-system"


def run(
    *arguments: str, check: bool = True, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[str]:
    binary = build.ensure(("helm",))["helm"] / "helm"
    at = [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    done = subprocess.run([str(binary), *arguments, *at], text=True, capture_output=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"helm {' '.join(arguments)}: {done.stderr}")
    return done


def template(*options: str, release: str = "llm") -> dict[tuple[str, str], dict[str, Any]]:
    """What the chart renders, by kind and name."""
    text = run("template", release, str(CHART), f"--namespace={NAMESPACE}", *options).stdout
    objects = [found for found in yaml.safe_load_all(text) if found]
    return {(found["kind"], found["metadata"]["name"]): found for found in objects}
