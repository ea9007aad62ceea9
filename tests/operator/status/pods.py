"""Pods in the states in which a cluster shows them (recorded from kubelets, cut to what matters)."""

from __future__ import annotations

import json
from typing import Any

REPORT = {
    "code": "InsufficientMemory",
    "requiredBytes": 9_000_000_000,
    "availableBytes": 4_000_000_000,
    "message": "weights 8,000 MiB need 9,000 MiB, 4,000 MiB are available",
    "hint": "try --max-model-len 1024 (the largest that fits)",
}
NOT_HEALTHY_IN_TIME = {
    "exitCode": 143,
    "reason": "Error",
    "startedAt": "2026-01-01T11:00:00Z",
    "finishedAt": "2026-01-01T11:04:30Z",
}


def pod(name: str = "llama-1", revision: str = "", **status: Any) -> dict[str, Any]:
    labels = {"serving.llmservice.dev/revision": revision} if revision else {}
    engine = {"name": "engine", "resources": {"limits": {"memory": "4Gi"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [engine]},
        "status": {"phase": "Pending", **status},
    }


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def engine(**fields: Any) -> dict[str, Any]:
    return {"name": "engine", "image": "engine:1", "ready": False, "restartCount": 0, "state": {}} | fields


def waiting(reason: str, message: str = "", **fields: Any) -> dict[str, Any]:
    return pod(
        containerStatuses=[engine(state={"waiting": {"reason": reason, "message": message}}, **fields)]
    )


def ended(**terminated: Any) -> dict[str, Any]:
    """A crash loop between two tries."""
    return waiting(
        "CrashLoopBackOff",
        "back-off 10s restarting failed container=engine",
        restartCount=1,
        lastState={
            "terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T11:00:00Z"}
            | terminated
        },
    )


def running_again(**terminated: Any) -> dict[str, Any]:
    """The next try of a crash loop: it runs, is not ready, and the last end still counts."""
    made = ended(**terminated)
    made["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": "2026-01-01T11:01:00Z"}}
    return made


def ready(name: str = "llama-1", revision: str = "") -> dict[str, Any]:
    return pod(
        name,
        revision,
        phase="Running",
        conditions=[condition("Ready", "True")],
        containerStatuses=[engine(ready=True, state={"running": {}})],
    )


def reported(**fields: Any) -> dict[str, Any]:
    return ended(message=json.dumps(REPORT | fields))


VOLUMES = [
    {"name": "token", "secret": {"secretName": "hf-token"}},
    {"name": "template", "configMap": {"name": "templates"}},
    {"name": "model", "persistentVolumeClaim": {"claimName": "models"}},
]


def creating(minutes_ago: int = 1, **fields: Any) -> dict[str, Any]:
    """On a node for some time, and no container yet."""
    made = waiting("ContainerCreating")
    since = f"2026-01-01T11:{60 - minutes_ago:02}:00Z"
    made["status"]["conditions"] = [condition("PodScheduled", "True") | {"lastTransitionTime": since}]
    made["spec"] |= {"nodeName": "worker-1", "volumes": VOLUMES} | fields
    return made


def unready(minutes_ago: int = 1) -> dict[str, Any]:
    """Its start-up is over, and it is not ready."""
    since = f"2026-01-01T11:{60 - minutes_ago:02}:00Z"
    return pod(
        phase="Running",
        conditions=[condition("Ready", "False", "ContainersNotReady") | {"lastTransitionTime": since}],
        containerStatuses=[engine(started=True, state={"running": {"startedAt": "2026-01-01T11:00:00Z"}})],
    )


def event(reason: str, message: str, at: str = "11:59:50", **fields: Any) -> dict[str, Any]:
    """As a kubelet writes it, at noon's eve."""
    when = f"2026-01-01T{at}Z"
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "metadata": {"name": f"llama-1.{reason.lower()}.{at}"},
        "involvedObject": {"kind": "Pod", "name": "llama-1", "uid": "p-1"},
    } | fields


def claim(phase: str = "Pending") -> dict[str, Any]:
    return {"metadata": {"name": "models", "uid": "c-1"}, "status": {"phase": phase}}
