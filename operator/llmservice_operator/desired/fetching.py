"""The pods that run ``llmservice-operator fetch``: they look a model up, or copy it. No accelerator, no rights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from llmservice_operator.api import copies, names
from llmservice_operator.api.caching import CacheJob
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import merge, security

MODEL_FOLDER = "/mnt/model"
SCRATCH_FOLDER = "/tmp"
_DEFAULT_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}

Step = Literal["resolve", "copy"]


def source(wanted: LLMService, defaults: Defaults) -> dict[str, Any]:
    """The source as the command takes it, with the cluster's mirror where the spec names none."""
    given = wanted.source
    if "hf" in given and "endpoint" not in given["hf"] and defaults.hub_endpoint:
        return {"hf": {**given["hf"], "endpoint": defaults.hub_endpoint}}
    return given


def job_spec(
    wanted: LLMService,
    defaults: Defaults,
    step: Step,
    labels: Mapping[str, str],
    revision: str = "",
    volume: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A Job's spec: one pod, one try. ``volume``: the source of volume ``model``; None: none is mounted."""
    job = wanted.cache.job if wanted.cache is not None else CacheJob()
    template = wanted.spec.template.spec
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "containers": [container(wanted, defaults, step, revision, mounted=volume is not None)],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": merge.merged(security.POD, template.get("securityContext") or {}),
        "terminationGracePeriodSeconds": 10,
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            *secret_volumes(wanted),
            *([{"name": "model", **volume}] if volume is not None else ()),
        ],
        "imagePullSecrets": template.get("imagePullSecrets")
        or [{"name": name} for name in defaults.image_pull_secrets],
        **_placement(wanted, job),
    }
    return {
        "backoffLimit": 0,
        "template": {
            "metadata": {"labels": dict(labels)},
            "spec": {key: value for key, value in pod.items() if value not in ([], {})},
        },
    }


def _placement(wanted: LLMService, job: CacheJob) -> dict[str, Any]:
    """Where the job may run. What it mounts first may bind a volume to its node: where only one node can have it,
    that must be one for the engine too."""
    cache, template = wanted.cache, wanted.spec.template.spec
    one_node = cache is not None and cache.access_mode in ("ReadWriteOnce", "ReadWriteOncePod")
    engines = template if one_node else {}
    return {
        "affinity": engines.get("affinity") or {},
        "nodeSelector": dict(job.node_selector) or engines.get("nodeSelector") or {},
        "tolerations": [dict(one) for one in job.tolerations] or engines.get("tolerations") or [],
    }


def container(
    wanted: LLMService, defaults: Defaults, step: Step, revision: str = "", *, mounted: bool
) -> dict[str, Any]:
    """The container that does one step: of a job, or the init container of an engine pod."""
    job = wanted.cache.job if wanted.cache is not None else CacheJob()
    given = job.resources.model_dump(mode="json")
    resources = {side: amounts for side, amounts in given.items() if amounts} or _DEFAULT_RESOURCES
    mounts: list[dict[str, Any]] = [{"mountPath": SCRATCH_FOLDER, "name": "tmp"}]
    mounts += [{"mountPath": path, "name": name, "readOnly": True} for name, path in _secrets(wanted)]
    if mounted:
        read_only = step == "resolve"
        mounts.append(
            {"mountPath": MODEL_FOLDER, "name": "model"} | ({"readOnly": True} if read_only else {})
        )
    command = ["fetch", step, "--source", json.dumps(source(wanted, defaults), sort_keys=True)]
    command += ["--revision", revision] if revision else []
    command += ["--folder", MODEL_FOLDER, "--report", "/dev/termination-log"]
    return {
        "name": names.PREFETCH,
        "image": defaults.operator_image,
        "args": command,
        "env": [
            {"name": "HOME", "value": SCRATCH_FOLDER},
            *(variable.model_dump(by_alias=True, exclude_none=True) for variable in job.env),
        ],
        "resources": {
            side: {name: str(amount) for name, amount in sorted(amounts.items())}
            for side, amounts in resources.items()
        },
        "securityContext": security.CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    } | ({"imagePullPolicy": defaults.image_pull_policy} if defaults.image_pull_policy else {})


def secret_volumes(wanted: LLMService) -> list[dict[str, Any]]:
    """Secrets as files: read anew by every job, and by a running pod within a minute or two of a change."""
    volumes = []
    token, bucket = wanted.spec.model.token_secret_ref, wanted.spec.model.source.s3
    if token is not None:
        items = [{"key": token.key, "path": "token"}]
        volumes.append(
            {"name": "token", "secret": {"secretName": token.name, "items": items, "defaultMode": 0o440}}
        )
    if bucket is not None and bucket.credentials_secret_ref is not None:
        secret = {"secretName": bucket.credentials_secret_ref.name, "defaultMode": 0o440}
        volumes.append({"name": "credentials", "secret": secret})
    return volumes


def _secrets(wanted: LLMService) -> list[tuple[str, str]]:
    folders = {"token": copies.TOKEN_FOLDER, "credentials": copies.CREDENTIALS_FOLDER}
    return [(str(volume["name"]), folders[volume["name"]]) for volume in secret_volumes(wanted)]
