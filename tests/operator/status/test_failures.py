"""What a pod says went wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llmservice_operator.status import failures
from llmservice_planner.startup import StartupBudget

from tests.operator.status import pods

BUDGET = StartupBudget(260, "Derived")
UNBOUND = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
NO_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
PULL = 'failed to pull and unpack image "docker.io/library/nope:1": not found'
TRACE = 'Traceback (most recent call last):\n  File "x.py", line 1\nImportError: no module named torch\n'

INIT_FAILS = pods.pod(
    initContainerStatuses=[
        {
            "name": "wait",
            "ready": False,
            "state": {"terminated": {"exitCode": 2, "reason": "Error", "message": "no"}},
        }
    ],
    containerStatuses=[pods.engine(state={"waiting": {"reason": "PodInitializing"}})],
)
SIDECAR_FAILS = pods.pod(
    containerStatuses=[
        {"name": "proxy", "ready": False, "state": {"terminated": {"exitCode": 3, "reason": "Error"}}},
        pods.engine(ready=True, state={"running": {}}),
    ],
)

TABLE: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    "no device is free": (
        pods.pod(conditions=[pods.condition("PodScheduled", "False", "Unschedulable", NO_GPU)]),
        "Unschedulable", NO_GPU, False,
    ),
    "the claim is not bound": (
        pods.pod(conditions=[pods.condition("PodScheduled", "False", "Unschedulable", UNBOUND)]),
        "Unschedulable", UNBOUND, False,
    ),
    "the pod is held by a gate": (
        pods.pod(conditions=[pods.condition("PodScheduled", "False", "SchedulingGated", "waiting")]),
        "SchedulingGated", "waiting", False,
    ),
    "the image is not there": (pods.waiting("ErrImagePull", PULL), "ImagePullBackOff", PULL, False),
    "the image is not there, backing off": (
        pods.waiting("ImagePullBackOff", f'Back-off pulling image "nope:1": ErrImagePull: {PULL}'),
        "ImagePullBackOff", f"image engine:1: {PULL}", False,
    ),
    "the image's name is none": (
        pods.waiting("InvalidImageName", "couldn't parse image name"), "InvalidImageName", "couldn't parse", True,
    ),
    "the secret is missing": (
        pods.waiting("CreateContainerConfigError", 'secret "hf-token-secret" not found'),
        "SecretNotFound", 'container engine: secret "hf-token-secret" not found', False,
    ),
    "a key of the secret is missing": (
        pods.waiting("CreateContainerConfigError", "couldn't find key token in Secret team/hf-token"),
        "SecretKeyNotFound", "key token in Secret team/hf-token", False,
    ),
    "the config map is missing": (
        pods.waiting("CreateContainerConfigError", 'configmap "settings" not found'),
        "ConfigMapNotFound", 'configmap "settings" not found', False,
    ),
    "a key of the config map is missing": (
        pods.waiting("CreateContainerConfigError", "couldn't find key a in ConfigMap team/settings"),
        "ConfigMapKeyNotFound", "key a in ConfigMap", False,
    ),
    "the image would run as root": (
        pods.waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
        "CreateContainerConfigError", "will run as root", False,
    ),
    "the container cannot be made": (
        pods.waiting("CreateContainerError", "context deadline exceeded"), "CreateContainerError", "deadline", False,
    ),
    "the command does not exist": (
        pods.ended(exitCode=128, reason="StartError", message='exec: "llmservice-engine": not found'),
        "StartError", '"llmservice-engine": not found', False,
    ),
    "the engine reports": (pods.reported(), "InsufficientMemory", "; try --max-model-len 1024", True),
    "the engine reported and tries again": (
        pods.running_again(message=json.dumps(pods.REPORT)), "InsufficientMemory", "4,000 MiB are available", True,
    ),
    "the model is not there, which may heal": (
        pods.reported(code="ModelNotFound", message="/mnt/model/x has no config.json", hint=""),
        "ModelNotFound", "/mnt/model/x has no config.json", False,
    ),
    "the report's code is no reason": (pods.reported(code="!?"), "Unknown", "9,000 MiB", False),
    "the log is all there is": (
        pods.ended(message=TRACE), "CrashLoopBackOff", "ImportError: no module named torch", False,
    ),
    "there is not even a log": (pods.ended(), "CrashLoopBackOff", "container engine ended with exit code 1", False),
    "JSON that is no report": (pods.ended(message="[1, 2]"), "CrashLoopBackOff", "[1, 2]", False),
    "memory ran out": (
        pods.ended(exitCode=137, reason="OOMKilled"), "OOMKilled", "(limit 4Gi); raise spec.resources", False,
    ),
    "the start took too long": (
        pods.ended(**pods.NOT_HEALTHY_IN_TIME), "StartupDeadlineExceeded", "within 260 s (Derived)", False,
    ),
    "the engine was ended later": (
        pods.ended(**pods.NOT_HEALTHY_IN_TIME | {"startedAt": "2026-01-01T09:00:00Z"}),
        "EngineExited", "exit code 143", False,
    ),
    "the engine ended well, but ended": (
        pods.ended(exitCode=0, reason="Completed"), "EngineExited", "exit code 0", False,
    ),
    "an init container fails": (INIT_FAILS, "CrashLoopBackOff", "container wait ended with exit code 2: no", False),
    "a sidecar fails": (SIDECAR_FAILS, "CrashLoopBackOff", "container proxy ended with exit code 3", False),
    "the node does not answer": (
        pods.pod(phase="Running", conditions=[pods.condition("Ready", "Unknown", "NodeStatusUnknown", "stopped")],
                 containerStatuses=[pods.engine(ready=True, state={"running": {}})]),
        "NodeLost", "does not answer: stopped", False,
    ),
    "it was killed by a signal": (
        pods.ended(exitCode=139), "CrashLoopBackOff", "container engine ended with exit code 139 (SIGSEGV)", False,
    ),
    "a sidecar ends well, but ends": (
        pods.pod(containerStatuses=[
            {"name": "proxy", "ready": False, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]),
        "CrashLoopBackOff", "container proxy ended with exit code 0", False,
    ),
    "the node threw it out": (
        pods.pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
        "Evicted", "low on resource", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "reason", "words", "final"), TABLE.values(), ids=TABLE.keys())
def test_reason_is_the_pods_own_when(pod: dict[str, Any], reason: str, words: str, final: bool) -> None:
    found = failures.of_pod(pod, BUDGET)
    assert found is not None
    assert (found.reason, found.final) == (reason, final)
    assert words in found.message


HEALTHY: dict[str, dict[str, Any]] = {
    "it is ready": pods.ready(),
    "it became ready after a crash": pods.pod(
        conditions=[pods.condition("Ready", "True")],
        containerStatuses=[pods.engine(ready=True, lastState={"terminated": {"exitCode": 1}})],
    ),
    "it is only starting": pods.waiting("ContainerCreating"),
    "it loads": pods.pod(phase="Running", containerStatuses=[pods.engine(state={"running": {}})]),
    "its init container is done": pods.pod(
        initContainerStatuses=[{"name": "a", "ready": False, "state": {"terminated": {"exitCode": 0}}}],
        containerStatuses=[pods.engine(state={"waiting": {"reason": "PodInitializing"}})],
    ),
    "it is new": pods.pod(),
}


@pytest.mark.parametrize("pod", HEALTHY.values(), ids=HEALTHY.keys())
def test_pod_says_nothing_when(pod: dict[str, Any]) -> None:
    assert failures.of_pod(pod, BUDGET) is None


def test_pod_that_is_being_deleted_says_nothing() -> None:
    pod = pods.reported()
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T11:00:00Z"
    assert failures.of_pod(pod, BUDGET) is None


@pytest.mark.parametrize(
    ("reason", "words"),
    [("PreemptionByScheduler", "preempting to accommodate a higher priority pod"),
     ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
     ("EvictionByEvictionAPI", "Eviction API: evicting")],
)  # fmt: skip
def test_pod_that_is_taken_away_says_by_whom(reason: str, words: str) -> None:
    pod = pods.ready()
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T11:00:00Z"
    pod["status"]["conditions"].append(pods.condition("DisruptionTarget", "True", reason, words))
    found = failures.of_pod(pod, BUDGET)
    assert found is not None
    assert (found.reason, found.message) == (reason, words)
    unscheduled = pods.pod("b", conditions=[pods.condition("PodScheduled", "False", "Unschedulable", NO_GPU)])
    exact = failures.worst([pod, unscheduled], BUDGET)
    assert exact is not None
    assert exact.reason == "Unschedulable", "why it does not come back goes first"


def test_unbound_claims_are_named() -> None:
    pod = pods.pod(conditions=[pods.condition("PodScheduled", "False", "Unschedulable", UNBOUND)])
    pod["spec"]["volumes"] = pods.VOLUMES
    found = failures.of_pod(pod, BUDGET)
    assert found is not None
    assert found.message == f"{UNBOUND} (claim models)"


@pytest.mark.parametrize(
    ("container", "limit", "words"),
    [("engine", "4Gi", "container engine ran out of memory (limit 4Gi); raise spec.resources.limits.memory"),
     ("proxy", "1Gi", "container proxy ran out of memory (limit 1Gi); raise its limit in spec.template"),
     ("prefetch", "2Gi", "(limit 2Gi); raise spec.cache.job.resources.limits.memory"),
     ("engine", None, "has no limit: the node had no more; set spec.resources.limits.memory")],
)  # fmt: skip
def test_out_of_memory_names_the_limit_and_where_it_is_set(
    container: str, limit: str | None, words: str
) -> None:
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    pod = pods.pod(containerStatuses=[{"name": container, "ready": False, "state": {"terminated": ended}}])
    pod["spec"]["containers"] = [
        {"name": container, "resources": {"limits": {"memory": limit} if limit else {}}}
    ]
    found = failures.of_pod(pod, BUDGET)
    assert found is not None
    assert words in found.message


def test_what_a_newer_pod_has_replaced_does_not_count() -> None:
    evicted = pods.pod("a", phase="Failed", reason="Evicted", message="low on memory")
    newer = pods.pod("b")
    evicted["metadata"]["creationTimestamp"] = "2026-01-01T10:00:00Z"
    newer["metadata"]["creationTimestamp"] = "2026-01-01T11:00:00Z"
    assert failures.worst([evicted, newer], BUDGET) is None
    assert failures.worst([evicted], BUDGET) is not None
    evicted["spec"]["restartPolicy"] = "Never"
    assert failures.worst([evicted, newer], BUDGET) is not None, (
        "a job's failure counts while it is tried again"
    )


def test_job_whose_container_has_just_ended_well_has_not_failed() -> None:
    done = {
        "name": "prefetch",
        "ready": False,
        "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
    }
    pod = pods.pod(phase="Running", containerStatuses=[done])
    pod["spec"]["restartPolicy"] = "Never"
    assert failures.of_pod(pod, BUDGET) is None


@pytest.mark.parametrize("secret", ["hf_AbCdEfGhIj1234", "user:hunter2", "Bearer abc.def"])
def test_no_secret_of_a_log_reaches_the_message(secret: str) -> None:
    line = f"GET https://{secret}@hub.example/x" if ":" in secret else f"sent {secret}"
    found = failures.of_pod(pods.ended(message=line), BUDGET)
    assert found is not None
    assert "***" in found.message
    assert secret.removeprefix("Bearer ") not in found.message


def test_figures_of_the_report_are_kept() -> None:
    found = failures.of_pod(pods.reported(), BUDGET)
    assert found is not None
    assert (found.required_bytes, found.available_bytes, found.exit_code) == (9_000_000_000, 4_000_000_000, 1)
    assert found.time == "2026-01-01T11:00:00Z"


def test_reason_does_not_change_while_a_crash_loop_turns() -> None:
    message = json.dumps(pods.REPORT)
    between, trying = pods.ended(message=message), pods.running_again(message=message)
    assert failures.of_pod(between, BUDGET) == failures.of_pod(trying, BUDGET)


def test_message_does_not_change_between_pull_and_back_off() -> None:
    pulling = pods.waiting("ErrImagePull", PULL)
    backing_off = pods.waiting("ImagePullBackOff", f'Back-off pulling image "nope:1": ErrImagePull: {PULL}')
    assert failures.of_pod(pulling, BUDGET) == failures.of_pod(backing_off, BUDGET)


def test_engines_report_goes_before_the_schedulers_words() -> None:
    unscheduled = pods.pod("a", conditions=[pods.condition("PodScheduled", "False", "Unschedulable", NO_GPU)])
    found = failures.worst([unscheduled, pods.reported()], BUDGET)
    assert found is not None
    assert found.reason == "InsufficientMemory"
