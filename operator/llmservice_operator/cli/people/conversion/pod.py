"""The engine's container and its pod: settings, devices, resources, time to start and to end, and the template."""

from __future__ import annotations

import copy
import re
from typing import Any

from llmservice_planner import settings

from llmservice_operator.api import contract, durations, quantities
from llmservice_operator.cli.people.conversion import command
from llmservice_operator.cli.people.conversion.notes import own_labels
from llmservice_operator.cli.people.conversion.workload import Body, Workload

_DEVICE = re.compile(
    r"^(nvidia\.com/(gpu|mig-)|amd\.com/gpu|gpu\.intel\.com/|habana\.ai/|google\.com/tpu|aws\.amazon\.com/neuron|"
    r"intel\.com/gpu|huawei\.com/Ascend|[a-z0-9.-]+/[a-z0-9.-]*gpu)"
)
_OURS = {"model", "tmp", "chat-template", "token", "credentials"}  # volumes that the operator makes
_PYTHON = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
# What the API server fills in: of no meaning where it has its default.
_POD_DEFAULTS = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
_CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


# --- the engine ----------------------------------------------------------------------------------------------
def engine(work: Workload, *, bundled: bool) -> Body:
    """``spec.engine``."""
    image = work.engine.pop("image", None)
    for key in ("command", "args"):
        work.engine.pop(key, None)
    made: Body = {} if bundled else {"image": image, "runtime": "VLLM"}
    if bundled:
        work.notes.replaced(
            f"{work.engine_at}.image", f"{image}: the bundled engine; it serves Llama's architecture"
        )
    elif not work.server.from_image and not command.OFFICIAL.search(str(image)):
        work.engine["command"] = list(_PYTHON)
    _listening(work)
    made |= work.flags.typed()
    chat = _chat_template(work)
    if chat is not None:
        made["chatTemplate"] = chat
    args = _arguments(work, bundled=bundled)
    if args:
        made["args"] = args
    env = _environment(work)
    if env:
        made["env"] = env
    return made


def _listening(work: Workload) -> None:
    work.flags.take("host")  # every address, as before
    if work.port != contract.PORT:
        work.notes.replaced(
            f"{work.engine_at}.args",
            f"--port {work.port}: the engine's port is {contract.PORT}, the Service's its own",
        )
    if work.flags.take("drain_timeout") is not None:
        work.notes.replaced(f"{work.engine_at}.args", "--drain-timeout: spec.rollout.drainTimeout")


def _arguments(work: Workload, *, bundled: bool) -> list[str]:
    made: list[str] = []
    for given in work.flags.rest:
        if bundled and given.name not in settings.EngineSettings.model_fields:
            work.notes.lost(
                f"{work.engine_at}.args", f"{_flag(given.words)}: the bundled engine has no such flag"
            )
            continue
        made += given.words
    return made


def _flag(words: tuple[str, ...]) -> str:
    """Its name alone: the value may be a key."""
    return words[0].partition("=")[0]


def _chat_template(work: Workload) -> Body | None:
    """A template that is mounted from a ConfigMap."""
    given = next((one for one in work.flags.rest if one.name == "chat_template"), None)
    path = given.values[-1] if given is not None and given.values else ""
    mount = work.mount_over(path) if path.startswith("/") else None
    found = work.volume(str(mount["name"])).get("configMap") if mount is not None else None
    if mount is None or found is None:
        return None
    key = str(mount.get("subPath") or path.rpartition("/")[2])
    for item in found.get("items") or ():
        key = item["key"] if item.get("path") == key else key
    work.flags.take("chat_template")
    work.unmount(mount)
    work.notes.kept(f"ConfigMap/{found.get('name')}", f"holds the chat template, key {key}")
    return {"configMapKeyRef": {"name": found.get("name"), "key": key}}


def _environment(work: Workload) -> list[Body]:
    given = {str(one.get("name")): one for one in work.engine.pop("env", None) or ()}
    for name, value in work.server.variables.items():
        given[name] = {"name": name, "value": value}
    return [
        {**one, "value": str(one["value"])} if one.get("value") is not None else one for one in given.values()
    ]


# --- devices and resources -----------------------------------------------------------------------------------
def accelerator(work: Workload) -> Body:
    """``spec.accelerator``; its resource goes out of the container's resources."""
    sides = [(work.engine.get("resources") or {}).get(side) or {} for side in ("limits", "requests")]
    name = next((name for side in sides for name in side if _DEVICE.match(name)), None)
    if name is None:
        return {"count": 0}
    counts = [side.pop(name) for side in sides if name in side]
    return {"count": int(quantities.parse(counts[0])), "resourceName": name}


def resources(work: Workload) -> Body:
    given = work.engine.pop("resources", None) or {}
    if given.get("claims"):
        work.notes.left(f"{work.engine_at}.resources.claims", given["claims"])
    return {
        side: {
            name: str(amount) if isinstance(amount, float) else amount for name, amount in given[side].items()
        }
        for side in ("requests", "limits")
        if given.get(side)
    }


# --- time ----------------------------------------------------------------------------------------------------
def startup(work: Workload) -> Body:
    """The deadline that the probes gave a start."""
    probes = {kind: work.engine.pop(f"{kind}Probe", None) for kind in ("startup", "liveness", "readiness")}
    given = [f"{kind}Probe" for kind, probe in probes.items() if probe]
    if given:
        work.notes.replaced(f"{work.engine_at}", f"{', '.join(given)}: the operator has its own, at /health")
    probe = probes["startup"] or probes["liveness"]
    if not probe:
        if probes["readiness"]:
            work.notes.replaced(
                f"{work.engine_at}.readinessProbe",
                "nothing ended a slow start; now spec.startup.deadline does, which "
                "follows the model's size where it is not given",
            )
        return {}
    tries = int(probe.get("failureThreshold", 3)) * int(probe.get("periodSeconds", 10))
    seconds = min(int(probe.get("initialDelaySeconds", 0)) + tries, durations.LONGEST)
    if not probes["startup"]:
        work.notes.replaced(
            f"{work.engine_at}.livenessProbe",
            f"gave a start {seconds} s, and so does spec.startup.deadline now; left out "
            "it follows the model's size",
        )
    return {"deadline": f"{seconds}s"}


def drain(work: Workload) -> str | None:
    """The drain that the grace period leaves room for."""
    grace = work.pod.pop("terminationGracePeriodSeconds", None)
    lifecycle = work.engine.get("lifecycle") or {}
    hook = lifecycle.pop("preStop", None)
    if hook is not None:
        sleeps = "sleep" in hook or "sleep" in str(hook.get("exec", {}).get("command", ""))
        say = work.notes.replaced if sleeps else work.notes.lost
        say(
            f"{work.engine_at}.lifecycle.preStop",
            f"the operator's own: {contract.PRE_STOP_SECONDS} s of sleep, then the drain",
        )
    if not lifecycle:
        work.engine.pop("lifecycle", None)
    if grace is None or int(grace) == 30:  # Kubernetes' default: nobody's choice
        return None
    seconds = min(max(0, int(grace) - contract.grace_seconds(0)), durations.LONGEST)
    work.notes.replaced(
        f"{work.pod_at}.terminationGracePeriodSeconds",
        f"{grace} s in all: the drain gets {seconds} s, the operator needs "
        f"{contract.grace_seconds(0)} s around it",
    )
    return f"{seconds}s"


# --- the template --------------------------------------------------------------------------------------------
def template(work: Workload, devices: int) -> Body:
    """``spec.template``: all that is left of the pod, for it is a pod's spec too."""
    _shared_memory(work, devices)
    _rename_volumes(work)
    made: Body = {}
    metadata = dict(work.template)
    metadata.pop("name", None)
    metadata.pop("namespace", None)
    labels = own_labels(
        metadata.pop("labels", None) or {}, f"{work.at} spec.template.metadata.labels", work.notes
    )
    if labels:
        made.setdefault("metadata", {})["labels"] = labels
    if metadata.get("annotations"):
        made.setdefault("metadata", {})["annotations"] = metadata["annotations"]
    spec = _pod_spec(work)
    if spec:
        made["spec"] = spec
    return made


def _pod_spec(work: Workload) -> Body:
    pod = {key: value for key, value in work.pod.items() if value not in (None, {}, [])}
    pod.pop("serviceAccount", None)
    for key, value in _POD_DEFAULTS.items():
        if pod.get(key) == value:
            del pod[key]
    sidecars = [_sidecar(work, one) for one in pod.pop("containers", ())]
    container = _container(work)
    containers = [*([{"name": "engine", **container}] if container else []), *sidecars]
    return {**({"containers": containers} if containers else {}), **pod}


def _container(work: Workload) -> Body:
    """What is left of the engine's container."""
    left = {key: value for key, value in work.engine.items() if value not in (None, {}, [])}
    name = left.pop("name", "engine")
    if name != "engine":
        work.notes.replaced(work.engine_at, "the container is named engine (kubectl logs -c engine)")
    for key, value in _CONTAINER_DEFAULTS.items():
        if left.get(key) == value:
            del left[key]
    ports = [port for port in left.pop("ports", ()) if not _is_servers(work, port)]
    return {**left, **({"ports": ports} if ports else {})}


def _is_servers(work: Workload, port: Body) -> bool:
    number = port.get("containerPort")
    return port.get("name") == "http" or number in (contract.PORT, work.port)


def _sidecar(work: Workload, container: Body) -> Body:
    at = f"{work.pod_at}.containers[{container.get('name')}]"
    made = dict(container)
    if made.get("name") == "engine":
        made["name"] = "engine-sidecar"
        work.notes.replaced(at, "the name engine is the engine's: it is engine-sidecar now")
    if any(port.get("name") == "http" for port in made.get("ports") or ()):
        work.notes.replaced(f"{at}.ports", "the name http is the engine's: the port has none now")
        made["ports"] = [
            {key: value for key, value in port.items() if key != "name" or value != "http"}
            for port in made["ports"]
        ]
    return made


def _shared_memory(work: Workload, devices: int) -> None:
    """The volume at /dev/shm is named shm here; with several devices the operator makes and mounts it."""
    mount = next(
        (
            one
            for one in work.engine.get("volumeMounts") or ()
            if str(one.get("mountPath")).rstrip("/") == "/dev/shm"
        ),
        None,
    )
    volume = copy.deepcopy(work.volume(str(mount["name"]))) if mount is not None else None
    if mount is None or not volume:
        return
    plain = volume.get("emptyDir") == {"medium": "Memory"}
    work.unmount(mount)
    if devices > 1 and plain:
        return
    if devices <= 1:
        work.engine.setdefault("volumeMounts", []).append({"name": "shm", "mountPath": "/dev/shm"})
    kept = [one for one in work.pod.get("volumes") or () if one.get("name") != "shm"]
    work.pod["volumes"] = [*kept, {**volume, "name": "shm"}]


def _rename_volumes(work: Workload) -> None:
    """A volume of theirs with the name of one of ours."""
    theirs = {str(one.get("name")) for one in work.pod.get("volumes") or ()}
    for name in sorted(theirs & _OURS):
        other = next(free for number in range(1, 100) if (free := f"{name}-{number}") not in theirs)
        everybody: list[dict[str, Any]] = [
            *(work.pod.get("volumes") or ()),
            *(mount for one in _containers(work) for mount in one.get("volumeMounts") or ()),
        ]
        for one in everybody:
            if one.get("name") == name:
                one["name"] = other
        work.notes.replaced(
            f"{work.pod_at}.volumes[{name}]", f"the name is the operator's: it is {other} now"
        )


def _containers(work: Workload) -> list[Body]:
    return [work.engine, *(work.pod.get("containers") or ()), *(work.pod.get("initContainers") or ())]
