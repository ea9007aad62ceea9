"""A person at a keyboard: types a command, reads what comes, and looks at the exit code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from llmservice_operator.api import spec
from llmservice_operator.cli import people
from llmservice_operator.cli.people import manifests
from typer.testing import CliRunner

MANIFESTS = Path(__file__).parent / "manifests"
HUB = "/root/.cache/huggingface"
Body = dict[str, Any]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def documents(self) -> list[Body]:
        return list(yaml.safe_load_all(self.out))


def types(*words: object, given: str | None = None) -> Said:
    done = CliRunner().invoke(people.app, [str(word) for word in words], input=given, prog_name="llmservice")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Said(done.exit_code, done.stdout, done.stderr)


def refused(said: Said) -> str:
    """The one line that bad input gets."""
    assert (said.code, said.out) == (2, ""), said
    (line,) = said.err.splitlines()
    return line


def deployment(
    args: Any = ("--model", "org/Llama"),
    *,
    command: Any = None,
    image: str = "vllm/vllm-openai:v0.9.1",
    **pod: Any,
) -> Body:
    """A Deployment of one container. ``pod``: of the pod's spec, but for what begins with ``c_``, of the container."""
    container = {"name": "server", "image": image, "args": list(args) if isinstance(args, tuple) else args}
    container |= {key.removeprefix("c_"): value for key, value in pod.items() if key.startswith("c_")}
    if command is not None:
        container["command"] = command
    rest = {key: value for key, value in pod.items() if not key.startswith("c_")}
    sidecars = rest.pop("sidecars", [])
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {
            "selector": {"matchLabels": {"app": "chat"}},
            "template": {
                "metadata": {"labels": {"app": "chat"}},
                "spec": {"containers": [container, *sidecars], **rest},
            },
        },
    }


@dataclass(frozen=True)
class Converted:
    spec: Body
    metadata: Body
    notes: list[dict[str, str]]

    def told(self, fate: str) -> str:
        """All notes of a fate, as one text."""
        return "\n".join(f"{note['at']}: {note['said']}" for note in self.notes if note["fate"] == fate)

    @property
    def lost(self) -> str:
        return self.told("no field")

    @property
    def engine_part(self) -> Body:
        """What the template says of the engine's container."""
        containers = self.spec.get("template", {}).get("spec", {}).get("containers", [])
        return next((one for one in containers if one["name"] == "engine"), {})


def converts(*bodies: Body, options: tuple[str, ...] = ()) -> Converted:
    """Convert; what comes out is one that the operator takes."""
    said = types("convert", "-f", "-", "-o", "json", *options, given=yaml.safe_dump_all(bodies))
    assert said.code == 0, said
    made = said.json["object"]
    spec.parse(manifests.stored(made))
    return Converted(made["spec"], made["metadata"], said.json["notes"])


def claim(name: str, storage: str = "1Gi", **fields: Any) -> Body:
    spec = {"resources": {"requests": {"storage": storage}}, **fields}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def service(*ports: Body, **fields: Any) -> Body:
    spec = {"selector": {"app": "chat"}, "ports": list(ports), **fields}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}, "spec": spec}


def scaler(**fields: Any) -> Body:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    return {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": target, **fields},
    }


def from_secret(variable: str, secret: str, key: str | None = None) -> Body:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key or variable}}}
