"""The catalogue: every reason that a condition may carry, what it means and what to do.

Reasons are quoted from whoever knows best: the scheduler, the kubelet, the autoscaler, the engine, the fetching jobs.
What is quoted and not listed here is still shown as it is; what this operator says itself is listed without gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reason:
    names: tuple[str, ...]  # several that mean the same to a person
    meaning: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    about: str
    rows: tuple[Reason, ...]
    progress: bool = False  # nothing is wrong: no warning


def _row(text: str, meaning: str, remedy: str) -> Reason:
    return Reason(tuple(text.split()), meaning, remedy)


_WAIT = "wait; the message counts"
_BY_ITSELF = "it goes on by itself"

GROUPS: Final = (
    Group("All is well", "`Ready`, `Available`", (
        _row("ReplicasAvailable", "every wanted replica runs this very spec and answers", "nothing"),
        _row("ReplicaAvailable", "at least one replica answers, of whichever generation", "nothing"),
        _row("Suspended ScaledToZero", "no replica is wanted, and none runs",
             "nothing; to get some, unset `spec.suspend` or ask for replicas"),
    ), progress=True),
    Group("Under way", "`Ready` and `Reconciling`: it may become right by itself", (
        _row("ResolvingModel", "the model is being looked up: which commit, how large, of what shape", "wait"),
        _row("CacheClaimPending", "the cache's claim is to be made, or waits for the model's size", "wait"),
        _row("Copying", "the model is being copied to the claim", "wait; `status.cache` counts the bytes"),
        _row("DeploymentPending", "the Deployment's controller has not seen the last write yet", "wait"),
        _row("ReplicasStarting", "replicas are being placed, load the model, or warm up", _WAIT),
        _row("RollingOut", "replicas are replaced by ones of the new template", _WAIT),
        _row("ReplicasEnding", "more replicas than wanted are still ending", _WAIT),
        _row("AutoscalerPending", "the autoscaler is new and has not looked yet", "wait"),
    ), progress=True),
    Group("The spec is refused", "`Stalled`: what runs goes on until the spec is changed", (
        _row("InvalidSpec", "the operator or the API server refuses a value; the field is named", "change that field"),
        _row("InvalidTemplate", "the pod template that `spec.template` leads to is refused; the path is named",
             "change `spec.template`"),
        _row("InvalidService", "the Service is refused, for a node port that is taken, say",
             "change `spec.expose.service`"),
        _row("ChildConflict", "somebody else owns an object of a child's name", "rename one of the two"),
        _row("Forbidden", "a policy or an admission webhook forbids a child", "the message is the API server's own"),
    )),
    Group("Writing children", "`Reconciling`", (
        _row("ApplyFailed", "a write failed and is tried again", "wait; if it lasts, look at the API server"),
        _row("FailedCreate", "pods cannot be created: a quota, a security level or a runtime class stands in the way",
             "raise the quota, or ask for less; the message is the API server's own"),
        _row("ProgressDeadlineExceeded", "no progress within the deadline, and no pod says why",
             "the message, then the pods' events"),
        _row("KindNotServed", "the cluster lacks a kind that the spec asks for (PodMonitor, HTTPRoute, ScaledObject)",
             "install it; it is looked for every minute. Or switch the feature off"),
    )),
    Group("Looking the model up", "`ModelResolved`", (
        _row("Resolved", "commit, bytes and shape are known", "nothing"),
        _row("ModelNotFound", "there is no such repository, bucket prefix or folder, or it is no model",
             "correct `spec.model.source`"),
        _row("RevisionNotFound", "there is no such branch, tag or commit, or it was changed since it was resolved",
             "correct `revision`"),
        _row("ModelGated", "the licence of the model is not accepted yet by the token's account",
             "accept it on the hub's page of the model; " + _BY_ITSELF),
        _row("InvalidToken", "the hub refuses the token", "renew the token in the Secret; " + _BY_ITSELF),
        _row("TokenMissing", "without a token the hub shows nothing: the repository is private, or does not exist",
             "set `spec.model.tokenSecretRef`, or correct the name"),
        _row("HubUnreachable", "the hub or the bucket's endpoint does not answer",
             "a proxy or a network policy? `spec.cache.job.env` reaches the jobs"),
        _row("BucketNotFound", "there is no such bucket at that endpoint", "correct `uri` or `endpoint`"),
        _row("AccessDenied", "the origin knows who asks and says no", "grant the right to read to these credentials"),
        _row("InvalidSource", "the source cannot be used as it is written", "the message names the field"),
        _row("InternalError", "a fault of the operator's own job", "report it, with the job's log"),
    )),
    Group("The content", "`ModelResolved`, `CacheReady`, and the engine's own report", (
        _row("NoWeights", "there is no weight file among what would be copied",
             "does `files` exclude them?"),
        _row("WeightsIncomplete", "a file that the model needs is missing or cut; it is named",
             "mend the origin or the claim's content; the next try reads it anew"),
        _row("ChecksumMismatch", "a file is not what the origin says it is, twice in a row",
             "a proxy that alters files? Else ask the hub"),
        _row("UnsupportedArchitecture", "the engine does not serve this architecture; it is named",
             "choose another model, or another image in `spec.engine.image`"),
    )),
    Group("The claim and the copy", "`CacheReady`", (
        _row("Copied CopiedByPods", "the copy is complete; or each pod makes its own before its start", "nothing"),
        _row("ClaimNotFound", "the claim that the spec names does not exist", "create it; " + _BY_ITSELF),
        _row("ClaimTooSmall VolumeTooSmall", "the volume is smaller than the copy; both sizes are told",
             "raise `spec.cache.size`, or give a larger claim"),
        _row("StorageClassNotFound", "the claim's storage class does not exist; it is named",
             "create the class, or change `spec.cache.storageClassName`"),
        _row("ProvisioningFailed", "the provisioner makes no volume; its own words follow", "ask the provisioner"),
        _row("FailedBinding", "no volume fits the claim, and no storage class makes one",
             "set `spec.cache.storageClassName`, or mark a class as the cluster's default"),
        _row("ClaimLost", "the volume behind the claim is gone", "delete the claim; the copy is made anew"),
        _row("ClaimImmutable ClaimShrinks", "another class or mode, or a smaller size, is asked than the claim has; "
             "none of them can change", "put the old value back, or delete the claim and have the model copied anew"),
        _row("ClaimRefused", "the API server refuses the claim", "the message is its own: a quota on storage?"),
        _row("ExpansionRefused", "the claim cannot grow: its storage class does not allow it",
             "choose a class with `allowVolumeExpansion`, or put the old size back"),
        _row("PermissionDenied", "the volume may not be written, or read, by the pod's user",
             "set `spec.template.spec.securityContext.fsGroup` or `supplementalGroups`"),
        _row("ReadOnlyVolume", "the volume is mounted read-only", "use a claim that can be written"),
        _row("VolumeFailed", "the file system failed in another way", "look at the volume's server"),
        _row("PrefetchFailed", "the job ended without a report; its last words follow", "read its pod's log"),
        _row("Interrupted", "the job was stopped; what it has is kept", "nothing: " + _BY_ITSELF),
    )),
    Group("Does it fit?", "`MemoryFits`, and the engine's own report", (
        _row("Fits", "with room for several sequences of full length", "nothing"),
        _row("Tight", "with room for few sequences of full length", "lower `maxModelLen` if many must run at once"),
        _row("DoesNotFit InsufficientGPUMemory InsufficientMemory",
             "it does not fit: need, have, and the largest length that would", "lower `maxModelLen`, or give more"),
        _row("Unknown", "some figure is not known, or a reason was none", "see the message"),
    )),
    Group("Placing pods", "`Ready`; the scheduler's and the controllers' own words", (
        _row("Unschedulable", "no node fits; unbound claims are named", "free a device, or lower what is asked"),
        _row("SchedulingGated SchedulerError", "something holds the pod before it is scheduled",
             "whoever set the gate must remove it (a queue, an autoscaler)"),
        _row("PreemptionByScheduler", "a pod of higher priority took the place",
             "set `spec.template.spec.priorityClassName`"),
        _row("EvictionByEvictionAPI DeletionByTaintManager DeletionByPodGC TerminationByKubelet DisruptionTarget",
             "the pod was taken away: a drain, a taint, a lost node, a node that shuts down", "wait for its successor"),
        _row("Evicted Preempting", "the node ran short of memory, disk or processes, and ended the pod",
             "ask for what it uses: `spec.resources.requests`"),
        _row("NodeLost NodeShutdown Terminated", "the node does not answer, or shuts down", "look at the node"),
        _row("PodFailed NodeAffinity UnexpectedAdmissionError OutOfcpu OutOfmemory OutOfpods",
             "the node refused the pod; its words follow", "look at the node and its device plugin"),
    )),
    Group("Before a container runs", "`Ready`; from the pod's state and its events", (
        _row("ImagePullBackOff", "the image cannot be had; the cause follows",
             "mend `spec.engine.image`, or the pull secret in `spec.template`"),
        _row("InvalidImageName ErrImageNeverPull ImageInspectError RegistryUnavailable",
             "the image's name is none, or it must not or cannot be fetched", "mend `spec.engine.image`"),
        _row("SecretNotFound ConfigMapNotFound", "a Secret or ConfigMap that the pod needs does not exist; it is named",
             "create it; " + _BY_ITSELF),
        _row("SecretKeyNotFound ConfigMapKeyNotFound",
             "it exists and has no such key", "add the key, or correct the spec"),
        _row("VolumeAttachFailed", "a node cannot attach the claim's volume; most often another node has it",
             "a claim for replicas on several nodes must be `ReadWriteMany`"),
        _row("VolumeMountFailed", "a volume cannot be mounted; the kubelet's words follow",
             "look at the volume's server"),
        _row("FailedCreatePodSandBox NetworkNotReady", "the node cannot give the pod a network or a sandbox",
             "look at the node's network plugin and runtime class"),
        _row("CreateContainerConfigError CreateContainerError RunContainerError StartError PostStartHookError "
             "ContainerCannotRun", "the runtime cannot start a container; its words follow",
             "most often a wrong command, user or mount in `spec.template`"),
    )),
    Group("While it runs", "`Ready` and `status.lastFailure`", (
        _row("InvalidSettings", "the engine refuses a flag; it is named", "change `spec.engine`"),
        _row("SharedMemoryTooSmall", "`/dev/shm` is too small for several devices", "enlarge volume `shm` in "
             "`spec.template`"),
        _row("OOMKilled", "a container passed its memory limit; the limit is told", "raise it where the message says"),
        _row("StartupDeadlineExceeded", "not healthy within the start-up budget",
             "raise `spec.startup.deadline` if it only needs longer"),
        _row("UnhealthyProbe", "a started container fails its readiness or liveness probe; which one is told",
             "its log; a proxy or policy between kubelet and pod?"),
        _row("CrashLoopBackOff EngineExited ContainerStatusUnknown DeadlineExceeded",
             "a container ends again and again; code and last words follow", "read `kubectl logs --previous`"),
        _row("NoReplicaAvailable", "no replica answers requests", "`Ready` says why"),
    )),
    Group("Scaling", "`AutoscalingActive`; the autoscaler's own reasons", (
        _row("Active ValidMetricFound ReadyForNewScale ScaledObjectReady", "it scales", "nothing"),
        _row("DesiredWithinRange TooFewReplicas TooManyReplicas ScalingLimited ScaleDownStabilized ScaleUpStabilized "
             "ScaleUpLimit ScaleDownLimit", "it scales, within limits that hold it now", "raise `maxReplicas`, or "
             "`behavior`, if it should go further"),
        _row("ScalingDisabled", "the Deployment was scaled to zero by hand", "ask for replicas again"),
        _row("FailedGetObjectMetric FailedGetExternalMetric FailedGetPodsMetric FailedGetResourceMetric "
             "InvalidMetricSourceType MetricsUnavailable",
             "there is no metric to scale by: replicas hold", "is the chart's metrics server on, and do pods answer?"),
        _row("ReplicasContested", "another autoscaler, which is named, sets the replicas that `spec.replicas` sets",
             "remove `spec.replicas`, or that autoscaler"),
        _row("FailedGetScale FailedUpdateScale FailedRescale InvalidSelector AmbiguousSelector BackoffBoth "
             "BackoffDownscale BackoffUpscale SucceededRescale SucceededGetScale ScaledObjectCheckFailed",
             "what the autoscaler could do with the Deployment", "the message is its own"),
    )),
)  # fmt: skip

_BY_NAME: Final = {name: (group, row) for group in GROUPS for row in group.rows for name in row.names}
_DONE: Final = frozenset({"Resolved", "Copied", "CopiedByPods", "Fits", "Tight", "Interrupted"})


def of(name: str) -> Reason | None:
    """None where nothing is known of it: it is quoted from somewhere else."""
    found = _BY_NAME.get(name)
    return found[1] if found is not None else None


def is_progress(name: str) -> bool:
    """Nothing is wrong."""
    found = _BY_NAME.get(name)
    return found is not None and (found[0].progress or name in _DONE)


def page() -> str:
    """``docs/reference/reasons.md``."""
    lines = [
        "# Every reason, and what to do", "",
        "Generated by `make generate`. How to read a status: [the guide](../guides/status.md). Reasons are quoted from "
        "the scheduler, the kubelet, the autoscaler and the engine, so another one may appear; its message is theirs.",
    ]  # fmt: skip
    for group in GROUPS:
        lines += ["", f"## {group.title}", "", f"{group.about}.", ""]
        lines += ["| reason | what it means | what to do |", "|---|---|---|"]
        for row in group.rows:
            named = ", ".join(f"`{name}`" for name in row.names)
            lines.append(f"| {named} | {row.meaning} | {row.remedy} |")
    return "\n".join(lines) + "\n"
