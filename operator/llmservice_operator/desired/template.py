"""The engine's pod template, as it is first rendered for a spec."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from llmservice_planner import settings
from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import contract, copies, durations, names, quantities
from llmservice_operator.api.copies import Facts
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.resources import Resources
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import copying, fetching, merge, security

CHAT_TEMPLATE_FOLDER = "/etc/llmservice/chat-template"

STARTUP_PERIOD_SECONDS = 2
KILL_SECONDS = 15  # grace when a probe ends the container: there is nothing left to drain

# Everything that a library may want to write to lies in the scratch volume: the root file system is read-only and
# the user may have no home.
_WRITABLE = {
    "HOME": fetching.SCRATCH_FOLDER,
    "USER": names.SINGULAR,
    "XDG_CACHE_HOME": f"{fetching.SCRATCH_FOLDER}/cache",
    "HF_HOME": f"{fetching.SCRATCH_FOLDER}/huggingface",
    "TRITON_CACHE_DIR": f"{fetching.SCRATCH_FOLDER}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{fetching.SCRATCH_FOLDER}/torchinductor",
}


def fresh(
    wanted: LLMService, budget: StartupBudget, model: Facts | None, defaults: Defaults, spec_hash: str
) -> dict[str, Any]:
    """The template with ``spec.template`` merged in. ``model``: as it was looked up, for what is copied."""
    labels = names.labels(wanted.name) | {names.REVISION_LABEL: spec_hash}
    rendered = {"metadata": {"labels": labels}, "spec": _pod(wanted, budget, model, defaults)}
    given = wanted.spec.template
    return merge.merged(rendered, {"metadata": given.metadata, "spec": given.spec})


def startup_seconds(template: Mapping[str, Any]) -> int | None:
    """What the engine's startup probe allows, which ``spec.template`` may have changed; None where it has none."""
    engine = next(one for one in template["spec"]["containers"] if one["name"] == names.ENGINE)
    probe = engine.get("startupProbe")
    if not probe:
        return None
    tries = int(probe.get("failureThreshold", 3)) * int(probe.get("periodSeconds", 10))
    return int(probe.get("initialDelaySeconds", 0)) + tries


def grace_seconds(template: Mapping[str, Any]) -> int:
    """How long one of its pods may take to end."""
    return int(template["spec"].get("terminationGracePeriodSeconds", 30))


def _pod(
    wanted: LLMService, budget: StartupBudget, model: Facts | None, defaults: Defaults
) -> dict[str, Any]:
    drain = durations.seconds(wanted.spec.rollout.drain_timeout)
    revision = model.revision if model is not None else ""
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "containers": [_engine(wanted, budget, revision, defaults)],
        "enableServiceLinks": False,
        "securityContext": dict(security.POD),
        "terminationGracePeriodSeconds": contract.grace_seconds(drain),
        "topologySpreadConstraints": [
            {
                "labelSelector": {"matchLabels": names.selector(wanted.name)},
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ],
        "volumes": _volumes(wanted, model, defaults),
    }
    if _copies_itself(wanted):
        pod["initContainers"] = [fetching.container(wanted, defaults, "copy", revision, mounted=True)]
    return pod | _pod_defaults(defaults)


def _copies_itself(wanted: LLMService) -> bool:
    """The pod sees to its own copy before its engine starts."""
    return wanted.cache is not None and not wanted.prefetches


def _volumes(wanted: LLMService, model: Facts | None, defaults: Defaults) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [{"name": "model", **_model_volume(wanted, model, defaults)}]
    volumes.append({"name": "tmp", "emptyDir": {}})
    if wanted.devices > 1:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
    if _copies_itself(wanted):
        volumes += fetching.secret_volumes(wanted)
    if (chat := wanted.spec.engine.chat_template) is not None:
        key = chat.config_map_key_ref
        items = [{"key": key.key, "path": key.key}]
        volumes.append({"name": "chat-template", "configMap": {"name": key.name, "items": items}})
    return volumes


def _model_volume(wanted: LLMService, model: Facts | None, defaults: Defaults) -> dict[str, Any]:
    if wanted.claim_name is not None:
        return {"persistentVolumeClaim": {"claimName": wanted.claim_name}}
    cache = wanted.cache
    assert cache is not None, "a pvc has a claim"
    if cache.mode == "None":
        return {"emptyDir": {}}
    size = cache.size or quantities.gib(copying.size(model))
    claim: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(size)}},
    }
    if storage_class := cache.storage_class_name or defaults.storage_class_name:
        claim["storageClassName"] = storage_class
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _pod_defaults(defaults: Defaults) -> dict[str, Any]:
    given: dict[str, Any] = {
        "imagePullSecrets": [{"name": name} for name in defaults.image_pull_secrets],
        "nodeSelector": dict(defaults.node_selector or {}),
        "runtimeClassName": defaults.runtime_class_name,
        "tolerations": [dict(toleration) for toleration in defaults.tolerations],
    }
    return {key: value for key, value in given.items() if value}


def _engine(wanted: LLMService, budget: StartupBudget, revision: str, defaults: Defaults) -> dict[str, Any]:
    own = [{"name": name, "value": value} for name, value in _WRITABLE.items()]
    given = [variable.model_dump(by_alias=True, exclude_none=True) for variable in wanted.spec.engine.env]
    container: dict[str, Any] = {
        "name": names.ENGINE,
        "image": wanted.spec.engine.image or defaults.image,
        "args": arguments(wanted, revision),
        "env": merge.merged({"env": own}, {"env": given})["env"],
        "lifecycle": {"preStop": {"sleep": {"seconds": contract.PRE_STOP_SECONDS}}},
        "ports": [{"containerPort": contract.PORT, "name": names.HTTP_PORT, "protocol": "TCP"}],
        "resources": _resources(wanted),
        "securityContext": dict(security.CONTAINER),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(wanted),
        **_probes(budget, wanted.spec.engine.runtime),
    }
    if defaults.image_pull_policy and wanted.spec.engine.image is None:
        container["imagePullPolicy"] = defaults.image_pull_policy
    return container


def _mounts(wanted: LLMService) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"mountPath": fetching.MODEL_FOLDER, "name": "model", "readOnly": True},
        {"mountPath": fetching.SCRATCH_FOLDER, "name": "tmp"},
    ]
    if wanted.devices > 1:
        mounts.append({"mountPath": "/dev/shm", "name": "shm"})
    if wanted.spec.engine.chat_template is not None:
        mounts.append({"mountPath": CHAT_TEMPLATE_FOLDER, "name": "chat-template", "readOnly": True})
    return mounts


def arguments(wanted: LLMService, revision: str = "") -> list[str]:
    """The engine's command line: what the operator owns, the typed settings, then ``spec.engine.args``."""
    engine, path = wanted.spec.engine, copies.folder(wanted.source, revision)
    bundled = engine.runtime == "Bundled"
    made = ["serve"] if bundled else []  # vLLM's image has its command in its entry point
    made += ["--model", f"{fetching.MODEL_FOLDER}/{path}".rstrip("/")]
    made += ["--served-model-name", *wanted.served_names]
    made += ["--port", str(contract.PORT)]
    if bundled:
        made += ["--drain-timeout", str(durations.seconds(wanted.spec.rollout.drain_timeout))]
    given = engine.settings()
    if wanted.devices > 1:
        given.setdefault("tensor_parallel_size", wanted.devices)
    for name, value in given.items():
        made += settings.words(name, value)
    if engine.chat_template is not None:
        made += ["--chat-template", f"{CHAT_TEMPLATE_FOLDER}/{engine.chat_template.config_map_key_ref.key}"]
    return made + list(engine.args)


def _probes(budget: StartupBudget, runtime: str) -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": names.HTTP_PORT}}
    path = "/ready" if runtime == "Bundled" else "/health"  # vLLM's is healthy from when it can answer
    ready = {"httpGet": {"path": path, "port": names.HTTP_PORT}}
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
