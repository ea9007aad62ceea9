"""What only the events of a pod or a claim tell (texts as kubelets, controllers and provisioners write them)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from llmservice_operator.status import failures
from llmservice_planner.startup import StartupBudget

from tests.operator.status import pods
from tests.operator.status.pods import creating, event, unready

BUDGET = StartupBudget(260, "Derived")
Event = dict[str, Any]
NO_SECRET = event("FailedMount", 'MountVolume.SetUp failed for volume "token" : secret "hf-token" not found')
TIMED_OUT = event(
    "FailedMount",
    "Unable to attach or mount volumes: unmounted volumes=[token], unattached volumes=[], "
    "failed to process volumes=[]: timed out waiting for the condition",
    at="11:59:58",
)
MULTI = event(
    "FailedAttachVolume",
    'Multi-Attach error for volume "pvc-7f" Volume is already used by pod(s) llama-0',
)
ATTACHED = 'AttachVolume.Attach succeeded for volume "pvc-7f" '
NFS = (
    'MountVolume.SetUp failed for volume "pvc-7f" : mount failed: exit status 32\nMounting command: mount\n'
    "Mounting arguments:  -t nfs filer:/x /var/lib/kubelet/pods/77650cb6/volumes/kubernetes.io~nfs/m\n"
    "Output: mount.nfs: Connection timed out for /var/lib/kubelet/pods/77650cb6/volumes/kubernetes.io~nfs/m\n"
)
SANDBOX = (
    'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "{}": '
    "no IP addresses available"
)
REFUSED = (
    'Readiness probe failed: Get "http://10.0.0.7:8000/health": dial tcp 10.0.0.7:8000: connection refused'
)
RESET = 'Liveness probe failed: Get "http://10.0.0.7:8000/": read tcp 10.0.0.1:{}->10.0.0.7:8000: connection reset'
KILLED = "Container engine failed {} probe, will be restarted"
NO_CLASS = event("ProvisioningFailed", 'storageclass.storage.k8s.io "nope" not found')

TABLE: dict[str, tuple[dict[str, Any], list[Event], str, str]] = {
    "the secret of a volume is missing": (
        creating(), [NO_SECRET], "SecretNotFound", 'volume token (secret hf-token): secret "hf-token" not found',
    ),
    "the cause is told before the time-out": (
        creating(), [NO_SECRET, TIMED_OUT], "SecretNotFound", 'secret "hf-token" not found',
    ),
    "nothing but the time-out is told": (
        creating(), [TIMED_OUT], "VolumeMountFailed", "volume token (secret hf-token): Unable to attach",
    ),
    "the secret lacks the key": (
        creating(),
        [event("FailedMount", 'MountVolume.SetUp failed for volume "token" : references non-existent secret key: k')],
        "SecretKeyNotFound", "volume token (secret hf-token): references non-existent secret key: k",
    ),
    "the config map is missing": (
        creating(),
        [event("FailedMount", 'MountVolume.SetUp failed for volume "template" : configmap "templates" not found')],
        "ConfigMapNotFound", 'volume template (configMap templates): configmap "templates" not found',
    ),
    "the config map lacks the key": (
        creating(),
        [event("FailedMount",
               'MountVolume.SetUp failed for volume "template" : references non-existent config key: mine.jinja')],
        "ConfigMapKeyNotFound", "mine.jinja",
    ),
    "another node has the volume": (
        creating(), [MULTI], "VolumeAttachFailed",
        'claim models: Multi-Attach error for volume "pvc-7f" Volume is already used by pod(s) llama-0; '
        "a volume of one node",
    ),
    "the file server does not answer": (
        creating(), [event("FailedMount", NFS)], "VolumeMountFailed",
        'claim models: MountVolume.SetUp failed for volume "pvc-7f" : mount failed: exit status 32 '
        "mount.nfs: Connection timed out for …",
    ),
    "the network is not there": (
        creating(), [event("FailedCreatePodSandBox", SANDBOX.format("0" * 64))],
        "FailedCreatePodSandBox", 'sandbox "…": no IP addresses available',
    ),
    "the readiness probe fails": (
        unready(), [event("Unhealthy", REFUSED)], "UnhealthyProbe",
        'readiness probe of container engine failed: Get "http://10.0.0.7:8000/health"',
    ),
    "the liveness probe has ended it": (
        pods.ended(exitCode=137, startedAt="2026-01-01T11:50:00Z", finishedAt="2026-01-01T11:59:59Z"),
        [event("Unhealthy", RESET.format(40123), at="11:59:20"),
         event("Killing", KILLED.format("liveness"), at="11:59:21")],
        "UnhealthyProbe", "container engine was restarted: its liveness probe failed: Get",
    ),
    "the startup probe has ended it": (
        pods.ended(exitCode=137, startedAt="2026-01-01T11:50:00Z", finishedAt="2026-01-01T11:59:59Z"),
        [event("Killing", KILLED.format("startup"), at="11:59:21")],
        "StartupDeadlineExceeded", "within 260 s (Derived); raise spec.startup.deadline",
    ),
    "its node is lost": (
        unready(), [event("NodeNotReady", "Node is not ready", at="11:59:00")], "NodeLost", "does not answer",
    ),
    "the pull secret is missing": (
        pods.waiting("ErrImagePull", "401 Unauthorized"),
        [event("FailedToRetrieveImagePullSecret",
               "Unable to retrieve some image pull secrets (regcred, other); attempting to pull may not succeed.")],
        "ImagePullBackOff", "image engine:1: 401 Unauthorized; pull secret regcred, other cannot be had",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "events", "reason", "words"), TABLE.values(), ids=TABLE.keys())
def test_events_tell_when(pod: dict[str, Any], events: list[Event], reason: str, words: str) -> None:
    found = failures.of_pod(pod, BUDGET, events)
    assert found is not None
    assert (found.reason, found.final) == (reason, False)
    assert words in found.message


SILENT: dict[str, tuple[dict[str, Any], list[Event]]] = {
    "the secret has come and the image is pulled": (
        creating(), [NO_SECRET, event("Pulling", "Pulling image", at="11:59:55", type="Normal")],
    ),
    "the volume has been attached since": (
        creating(), [MULTI, event("SuccessfulAttachVolume", ATTACHED, at="11:59:55", type="Normal")],
    ),
    "its sandbox stands": (
        creating() | {"status": creating()["status"]
                      | {"conditions": [pods.condition("PodReadyToStartContainers", "True")]}},
        [NO_SECRET],
    ),
    "a container runs": (
        pods.pod(phase="Running", containerStatuses=[pods.engine(state={"running": {}})]), [NO_SECRET],
    ),
    "it loads and the startup probe fails, as it should": (
        pods.pod(phase="Running", containerStatuses=[
            pods.engine(started=False, state={"running": {"startedAt": "2026-01-01T11:00:00Z"}})]),
        [event("Unhealthy", "Startup probe failed: connection refused")],
    ),
    "the probe failed before the last start": (unready(), [event("Unhealthy", REFUSED, at="10:59:00")]),
    "its node was lost an hour before": (unready(), [event("NodeNotReady", "Node is not ready", at="11:00:00")]),
    "it is ready": (pods.ready(), [NO_SECRET, MULTI, event("Unhealthy", REFUSED)]),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "events"), SILENT.values(), ids=SILENT.keys())
def test_events_are_of_the_past_when(pod: dict[str, Any], events: list[Event]) -> None:
    assert failures.of_pod(pod, BUDGET, events) is None


def test_the_order_of_the_events_does_not_matter() -> None:
    events = [NO_SECRET, TIMED_OUT, event("FailedMount", NFS, at="11:58:00")]
    assert failures.of_pod(creating(), BUDGET, events) == failures.of_pod(creating(), BUDGET, events[::-1])


def test_a_cause_that_is_not_repeated_any_more_gives_way() -> None:
    later = event("FailedMount", NFS, at="11:59:59")
    earlier = NO_SECRET | {"firstTimestamp": "2026-01-01T11:40:00Z", "lastTimestamp": "2026-01-01T11:50:00Z"}
    found = failures.of_pod(creating(), BUDGET, [earlier, later])
    assert found is not None
    assert found.reason == "VolumeMountFailed"


def test_the_scheduler_writes_times_elsewhere() -> None:
    series = {"count": 9, "lastObservedTime": "2026-01-01T11:59:59.123456Z"}
    new_style = event("FailedMount", NFS) | {
        "lastTimestamp": None,
        "eventTime": "2026-01-01T11:40:00.000000Z",
    }
    old = NO_SECRET | {"lastTimestamp": "2026-01-01T11:45:00Z"}
    found = failures.of_pod(creating(), BUDGET, [new_style | {"series": series}, old])
    assert found is not None
    assert found.reason == "VolumeMountFailed"


@pytest.mark.parametrize(
    ("pod", "reason", "first", "second"),
    [
        (creating(), "FailedCreatePodSandBox", SANDBOX.format("ab" * 32), SANDBOX.format("cd" * 32)),
        (unready(), "Unhealthy", RESET.format(40123), RESET.format(51234)),
    ],
    ids=["the sandbox", "the port"],
)
def test_a_message_does_not_change_with_every_try(
    pod: dict[str, Any], reason: str, first: str, second: str
) -> None:
    found = [failures.of_pod(pod, BUDGET, [event(reason, text)]) for text in (first, second)]
    assert found[0] is not None
    assert found[0] == found[1]


def test_a_probe_of_another_container_is_told_with_its_name() -> None:
    pod = unready()
    pod["status"]["containerStatuses"][0]["ready"] = True
    proxy = {"name": "proxy", "ready": False, "started": True, "state": {"running": {}}}
    pod["status"]["containerStatuses"].append(proxy)
    of_engine = event("Unhealthy", REFUSED) | {"involvedObject": {"fieldPath": "spec.containers{engine}"}}
    of_proxy = event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
    of_proxy["involvedObject"] = {"fieldPath": "spec.containers{proxy}"}
    assert failures.of_pod(pod, BUDGET, [of_engine]) is None
    found = failures.of_pod(pod, BUDGET, [of_engine, of_proxy])
    assert found is not None
    assert (
        found.message == "readiness probe of container proxy failed: HTTP probe failed with statuscode: 503"
    )


def test_worst_takes_each_pods_own_events() -> None:
    first, second = creating(), copy.deepcopy(creating())
    first["metadata"]["uid"], second["metadata"] = "p-1", {"name": "llama-2", "labels": {}, "uid": "p-2"}
    found = failures.worst([first, second], BUDGET, {"p-2": [NO_SECRET], "p-9": [MULTI]})
    assert found is not None
    assert (found.object, found.reason) == ("pod llama-2", "SecretNotFound")
    assert failures.worst([first, second], BUDGET) is None


CLAIMS: dict[str, tuple[list[Event], str, str, bool]] = {
    "its class does not exist": ([NO_CLASS], "StorageClassNotFound", "claim models: storage class nope does", True),
    "the provisioner cannot": (
        [event("ProvisioningFailed", 'failed to provision volume with StorageClass "fast": quota exceeded')],
        "ProvisioningFailed", "quota exceeded", False,
    ),
    "the provisioner cannot, and tries again": (
        [event("ProvisioningFailed", "out of space"),
         event("Provisioning", "External provisioner is provisioning", at="11:59:59", type="Normal"),
         event("ExternalProvisioning", "Waiting for a volume to be created", at="11:59:59", type="Normal")],
        "ProvisioningFailed", "out of space", False,
    ),
    "there is no class and no volume": (
        [event("FailedBinding", "no persistent volumes available for this claim and no storage class is set",
               type="Normal")],
        "FailedBinding", "no storage class is set", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "reason", "words", "final"), CLAIMS.values(), ids=CLAIMS.keys())
def test_a_claim_stays_pending_because(events: list[Event], reason: str, words: str, final: bool) -> None:
    found = failures.of_claim(pods.claim(), events)
    assert found is not None
    assert (found.reason, found.final, found.object) == (reason, final, "claim models")
    assert words in found.message


FINE: dict[str, tuple[str, list[Event]]] = {
    "it waits for its first pod": (
        "Pending", [event("WaitForFirstConsumer", "waiting for first consumer to be created", type="Normal")]),
    "its class has come": (
        "Pending", [NO_CLASS, event("WaitForFirstConsumer", "waiting", at="11:59:59", type="Normal")]),
    "its class has come and the provisioner works": (
        "Pending", [NO_CLASS, event("ExternalProvisioning", "Waiting for a volume", at="11:59:59", type="Normal")]),
    "nobody has said anything": ("Pending", []),
    "it is bound": ("Bound", [NO_CLASS]),
}  # fmt: skip


@pytest.mark.parametrize(("phase", "events"), FINE.values(), ids=FINE.keys())
def test_a_claim_has_no_failure_when(phase: str, events: list[Event]) -> None:
    assert failures.of_claim(pods.claim(phase), events) is None


def test_a_claim_that_lost_its_volume_says_so_without_an_event() -> None:
    found = failures.of_claim(pods.claim("Lost") | {"spec": {"volumeName": "pv-1"}})
    assert found is not None
    assert (found.reason, found.message) == ("ClaimLost", "claim models has lost its volume pv-1")
