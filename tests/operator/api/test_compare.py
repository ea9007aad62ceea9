"""When a live object already says what we would write, and when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_operator.api import compare

CONTAINERS = [{"name": "engine", "image": "a"}]
PORT = {"containerPort": 8000, "name": "http", "protocol": "TCP"}
SERVICE_PORT = {"name": "http", "port": 8000, "protocol": "TCP", "targetPort": "http"}
RULE: dict[str, Any] = {"from": [{"podSelector": {}}], "ports": [{"port": "http", "protocol": "TCP"}]}

SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "what live has beyond it": ({"spec": {"a": 1}}, {"spec": {"a": 1, "b": 2}, "status": {}}),
    "quantity in another spelling": ({"limits": {"cpu": "1000m"}}, {"limits": {"cpu": "1"}}),
    "quantity as a number": ({"requests": {"cpu": 4}}, {"requests": {"cpu": "4"}}),
    "binary quantity": ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
    "containers in another order": (
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {"containers": [{"name": "b"}, {"name": "a"}]},
    ),
    "an injected sidecar": ({"containers": CONTAINERS}, {"containers": [{"name": "proxy"}, *CONTAINERS]}),
    "a port without protocol": ({"ports": [{"containerPort": 8000}]}, {"ports": [PORT]}),
    "an empty string that the server drops": (
        {"env": [{"name": "A", "value": ""}]},
        {"env": [{"name": "A"}]},
    ),
    "a false that the server drops": ({"hostNetwork": False}, {}),
    "an empty map that the server drops": ({"nodeSelector": {}}, {}),
    "no value": ({"a": None}, {}),
    "a tuple for a list": ({"args": ("a", "b")}, {"args": ["a", "b"]}),
    "an autoscaler's target in the server's spelling": ({"averageValue": "1000"}, {"averageValue": "1k"}),
    "a Service's port with its node port": (
        {"ports": [SERVICE_PORT]},
        {"ports": [SERVICE_PORT | {"nodePort": 30000}]},
    ),
    "a network rule as it was written": ({"ingress": [RULE]}, {"ingress": [RULE]}),
}
DIFFERENT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another value": ({"spec": {"a": 1}}, {"spec": {"a": 2}}, "spec.a"),
    "a field that is not there": ({"spec": {"a": 1}}, {"spec": {}}, "spec.a"),
    "another quantity": ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1001m"}}, "limits.cpu"),
    "a label that reads like an equal quantity": ({"labels": {"v": "1.0"}}, {"labels": {"v": "1"}}, "labels.v"),
    "another image": ({"containers": CONTAINERS}, {"containers": [{"name": "engine", "image": "b"}]},
                      "containers[engine].image"),
    "a container that is not there": ({"containers": CONTAINERS}, {"containers": []}, "containers[engine]"),
    "arguments in another order": ({"args": ["a", "b"]}, {"args": ["b", "a"]}, "args[0]"),
    "one argument more": ({"args": ["a"]}, {"args": ["a", "b"]}, "args"),
    "a toleration of somebody else": ({"tolerations": []}, {"tolerations": [{"key": "a"}]}, "tolerations"),
    "a false that means something": ({"automountServiceAccountToken": False}, {}, "automountServiceAccountToken"),
    "true for one": ({"a": True}, {"a": 1}, "a"),
    "a map for a text": ({"a": {"b": 1}}, {"a": "b"}, "a"),
    "a list for a text": ({"a": ["b"]}, {"a": "b"}, "a"),
    "zero replicas": ({"replicas": 0}, {}, "replicas"),
    "a selector with one label more": (
        {"selector": {"matchLabels": {"a": "b"}}}, {"selector": {"matchLabels": {"a": "b", "c": "d"}}},
        "selector.matchLabels.c",
    ),
    "a network rule that lets in more namespaces": (
        {"ingress": [RULE]}, {"ingress": [RULE | {"from": [{"podSelector": {}, "namespaceSelector": {}}]}]},
        "ingress[0].from[0].namespaceSelector",
    ),
    "a network rule with one port more": (
        {"ingress": [RULE]}, {"ingress": [RULE | {"ports": [*RULE["ports"], {"port": 22, "protocol": "TCP"}]}]},
        "ingress[0].ports",
    ),
    "a network rule more": ({"egress": [RULE]}, {"egress": [RULE, {}]}, "egress"),
}  # fmt: skip


@pytest.mark.parametrize(("rendered", "live"), SAME.values(), ids=SAME.keys())
def test_live_object_already_says(rendered: dict[str, Any], live: dict[str, Any]) -> None:
    assert compare.differs(rendered, live) is None


@pytest.mark.parametrize(("rendered", "live", "path"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_difference_is_found_at(rendered: dict[str, Any], live: dict[str, Any], path: str) -> None:
    assert compare.differs(rendered, live) == path
