"""Strategic merge as kubectl does it."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_operator.desired import merge

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "maps merge": ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
    "null removes": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    "null within something new is nothing": ({}, {"a": {"b": None}}, {"a": {}}),
    "containers merge by name": (
        {"containers": [{"name": "engine", "image": "a", "args": ["x"]}]},
        {"containers": [{"name": "proxy"}, {"name": "engine", "image": "b"}]},
        {"containers": [{"name": "engine", "image": "b", "args": ["x"]}, {"name": "proxy"}]},
    ),
    "mounts merge by path": (
        {"volumeMounts": [{"mountPath": "/tmp", "name": "tmp"}]},
        {"volumeMounts": [{"mountPath": "/tmp", "name": "big"}, {"mountPath": "/data", "name": "data"}]},
        {"volumeMounts": [{"mountPath": "/tmp", "name": "big"}, {"mountPath": "/data", "name": "data"}]},
    ),
    "a volume of the same name is replaced": (
        {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]},
        {"volumes": [{"name": "shm", "hostPath": {"path": "/dev/shm"}}]},
        {"volumes": [{"name": "shm", "hostPath": {"path": "/dev/shm"}}]},
    ),
    "a variable of the same name is replaced": (
        {"env": [{"name": "A", "value": "1"}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
    ),
    "a probe's figures merge": (
        {"livenessProbe": {"httpGet": {"path": "/health"}, "periodSeconds": 10}},
        {"livenessProbe": {"initialDelaySeconds": 600}},
        {"livenessProbe": {"httpGet": {"path": "/health"}, "periodSeconds": 10, "initialDelaySeconds": 600}},
    ),
    "a probe of another kind replaces the kind": (
        {"livenessProbe": {"httpGet": {"path": "/health"}, "periodSeconds": 10}},
        {"livenessProbe": {"tcpSocket": {"port": 8000}}},
        {"livenessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 10}},
    ),
    "other lists are replaced": ({"tolerations": [{"key": "a"}]}, {"tolerations": []}, {"tolerations": []}),
}


@pytest.mark.parametrize(("base", "patch", "result"), CASES.values(), ids=CASES.keys())
def test_merge(base: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    before = repr((base, patch))
    assert merge.merged(base, patch) == result
    assert repr((base, patch)) == before, "neither side is changed"
