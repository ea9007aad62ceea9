"""The engine's pod template, as it is first rendered for a spec."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from llmservice_planner import settings
from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import contract, durations, names
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.spec import LLMService, Resources
from llmservice_operator.desired import merge

USER = 10001  # of the engine's image
MODEL_FOLDER = "/mnt/model"
SCRATCH_FOLDER = "/tmp"

STARTUP_PERIOD_SECONDS = 2
KILL_SECONDS = 15  # grace when a probe ends the container: there is nothing left to drain

# Everything that a library may want to write to lies in the scratch volume: the root file system is read-only and
# the user may have no home.
_WRITABLE = {
    "HOME": SCRATCH_FOLDER,
    "USER": names.SINGULAR,
    "XDG_CACHE_HOME": f"{SCRATCH_FOLDER}/cache",
    "HF_HOME": f"{SCRATCH_FOLDER}/huggingface",
    "TRITON_CACHE_DIR": f"{SCRATCH_FOLDER}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{SCRATCH_FOLDER}/torchinductor",
}


def fresh(wanted: LLMService, budget: StartupBudget, defaults: Defaults, spec_hash: str) -> dict[str, Any]:
    """The template with ``spec.template`` merged in."""
    labels = names.labels(wanted.name) | {names.REVISION_LABEL: spec_hash}
    rendered = {"metadata": {"labels": labels}, "spec": _pod(wanted, budget, defaults)}
    given = wanted.spec.template
    return merge.merged(rendered, {"metadata": given.metadata, "spec": given.spec})


def grace_seconds(template: Mapping[str, Any]) -> int:
    """How long one of its pods may take to end."""
    return int(template["spec"].get("terminationGracePeriodSeconds", 30))


def _pod(wanted: LLMService, budget: StartupBudget, defaults: Defaults) -> dict[str, Any]:
    drain = durations.seconds(wanted.spec.rollout.drain_timeout)
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "containers": [_engine(wanted, budget, defaults)],
        "enableServiceLinks": False,
        "securityContext": {
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "runAsGroup": USER,
            "runAsNonRoot": True,
            "runAsUser": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": contract.grace_seconds(drain),
        "topologySpreadConstraints": [
            {
                "labelSelector": {"matchLabels": names.selector(wanted.name)},
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ],
        "volumes": [
            {"name": "model", "persistentVolumeClaim": {"claimName": wanted.claim_name}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    return pod | _pod_defaults(defaults)


def _pod_defaults(defaults: Defaults) -> dict[str, Any]:
    given: dict[str, Any] = {
        "imagePullSecrets": [{"name": name} for name in defaults.image_pull_secrets],
        "nodeSelector": dict(defaults.node_selector or {}),
        "runtimeClassName": defaults.runtime_class_name,
        "tolerations": [dict(toleration) for toleration in defaults.tolerations],
    }
    return {key: value for key, value in given.items() if value}


def _engine(wanted: LLMService, budget: StartupBudget, defaults: Defaults) -> dict[str, Any]:
    own = [{"name": name, "value": value} for name, value in _WRITABLE.items()]
    given = [variable.model_dump(by_alias=True, exclude_none=True) for variable in wanted.spec.engine.env]
    container: dict[str, Any] = {
        "name": names.ENGINE,
        "image": wanted.spec.engine.image or defaults.image,
        "args": arguments(wanted),
        "env": merge.merged({"env": own}, {"env": given})["env"],
        "lifecycle": {"preStop": {"sleep": {"seconds": contract.PRE_STOP_SECONDS}}},
        "ports": [{"containerPort": contract.PORT, "name": names.HTTP_PORT, "protocol": "TCP"}],
        "resources": _resources(wanted),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"mountPath": MODEL_FOLDER, "name": "model", "readOnly": True},
            {"mountPath": SCRATCH_FOLDER, "name": "tmp"},
        ],
        **_probes(budget),
    }
    if defaults.image_pull_policy and wanted.spec.engine.image is None:
        container["imagePullPolicy"] = defaults.image_pull_policy
    return container


def arguments(wanted: LLMService) -> list[str]:
    """The engine's command line: what the operator owns, the typed settings, then ``spec.engine.args``."""
    pvc = wanted.spec.model.source.pvc
    path = pvc.path.strip("/") if pvc is not None else ""
    made = ["serve", "--model", f"{MODEL_FOLDER}/{path}".rstrip("/")]
    made += ["--served-model-name", *wanted.served_names]
    made += ["--port", str(contract.PORT)]
    made += ["--drain-timeout", str(durations.seconds(wanted.spec.rollout.drain_timeout))]
    for name, value in wanted.spec.engine.settings().items():
        made += [settings.flag(name), str(value)]
    return made + list(wanted.spec.engine.args)


def _probes(budget: StartupBudget) -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": names.HTTP_PORT}}
    ready = {"httpGet": {"path": "/ready", "port": names.HTTP_PORT}}
    return {
        "startupProbe": {
            **health,
            "failureThreshold": math.ceil(budget.deadline_seconds / STARTUP_PERIOD_SECONDS),
            "periodSeconds": STARTUP_PERIOD_SECONDS,
            "terminationGracePeriodSeconds": KILL_SECONDS,
            "timeoutSeconds": 2,
        },
        "livenessProbe": {
            **health,
            "failureThreshold": 3,
            "periodSeconds": 10,
            "terminationGracePeriodSeconds": KILL_SECONDS,
            "timeoutSeconds": 5,
        },
        "readinessProbe": {**ready, "failureThreshold": 2, "periodSeconds": 5, "timeoutSeconds": 3},
    }


def _resources(wanted: LLMService) -> dict[str, Any]:
    given: Resources = wanted.spec.resources
    requests, limits = dict(given.requests), dict(given.limits)
    for one, other in ((requests, limits), (limits, requests)):
        for name, amount in one.items():
            if "/" in name or name.startswith("hugepages-"):
                other.setdefault(name, amount)
    device = wanted.spec.accelerator
    if device.count:
        requests[device.resource_name] = limits[device.resource_name] = str(device.count)
    sides = {"requests": _strings(requests), "limits": _strings(limits)}
    return {side: amounts for side, amounts in sides.items() if amounts}


def _strings(amounts: Mapping[str, int | str]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}
