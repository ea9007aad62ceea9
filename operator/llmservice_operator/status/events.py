"""What the events of a pod or a claim say went wrong. Some causes are nowhere else: a volume's missing Secret, say.

Events outlive their cause by an hour and come out of order, so each question looks only at those that can still be
true, and of those within ``RECENT`` of the newest it takes the most exact, not the newest: a kubelet tells the cause
and "timed out waiting" by turns. Texts are quoted without what differs from one try to the next, so that a status
does not change while nothing changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from llmservice_operator.api.seen import Object

RECENT = timedelta(minutes=5)  # a kubelet repeats what is still true every 2 minutes at the latest
_NEVER = datetime.min.replace(tzinfo=UTC)

_ABSENT = (
    (re.compile(r'secret "([^"]+)" not found', re.IGNORECASE), "SecretNotFound"),
    (re.compile(r'configmap "([^"]+)" not found', re.IGNORECASE), "ConfigMapNotFound"),
    (re.compile(r"couldn't find key (\S+) in secret", re.IGNORECASE), "SecretKeyNotFound"),
    (re.compile(r"couldn't find key (\S+) in configmap", re.IGNORECASE), "ConfigMapKeyNotFound"),
    (re.compile(r"references non-existent secret key: (\S+)"), "SecretKeyNotFound"),
    (re.compile(r"references non-existent config key: (\S+)"), "ConfigMapKeyNotFound"),
)
_VOLUME = re.compile(r'volume "([^"]+)"')
_BEGUN = frozenset({"Created", "Pulled", "Pulling", "Started"})  # its volumes are there
_NO_SANDBOX = frozenset({"FailedCreatePodSandBox", "NetworkNotReady"})
_PROBE = re.compile(
    r"^(?P<probe>Liveness|Readiness|Startup) probe (?:failed|errored[^:]*): *(?P<words>.*)", re.DOTALL
)
_KILLED = re.compile(r"^Container (\S+) failed (liveness|startup) probe")
_CLASS = re.compile(r'storageclass(?:\.storage\.k8s\.io)? "([^"]+)" not found', re.IGNORECASE)
_PULL_SECRETS = re.compile(r"image pull secrets \(([^)]+)\)")
_CHANGING = (
    (re.compile(r"\b[0-9a-f]{32,}\b"), "…"),  # the ID of a sandbox or a container
    (re.compile(r"(\d|\]):\d+->"), r"\1->"),  # the port that a connection came from
    (re.compile(r"Mounting command:.*?Output: ", re.DOTALL), ""),
    (re.compile(r"/var/lib/kubelet/pods/[^\s:]+"), "…"),  # a pod's own folder
)
_SECRETS = re.compile(
    r"\bhf_[A-Za-z0-9_-]{6,}"  # a hub token
    r"|(?<=://)[^/\s@]+(?=@)"  # user and password in a URL
    r"|(?i:(?<=bearer )\S+)"
    r"|(?<=[?&])(?:X-Amz-|Signature|sig=)[^\s'\"]*"  # what signs a URL
)


@dataclass(frozen=True, slots=True)
class Cause:
    """``rank``: the lower, the more exact."""

    reason: str
    message: str
    rank: int
    final: bool = False


def time_of(event: Object) -> datetime:
    """When it was last seen; the beginning of time where it does not say."""
    series: Mapping[str, Any] = event.get("series") or {}
    given = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    created = event.get("metadata", {}).get("creationTimestamp")
    return max((moment(text) for text in (*given, created) if text), default=_NEVER)


def _first_seen(event: Object) -> datetime:
    return moment(event["firstTimestamp"]) if event.get("firstTimestamp") else time_of(event)


def moment(text: object) -> datetime:
    """A Kubernetes timestamp; the beginning of time where it is none."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return _NEVER
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def absent(text: str) -> str | None:
    """The reason where ``text`` says that a Secret, a ConfigMap or a key in one does not exist."""
    return next((reason for pattern, reason in _ABSENT if pattern.search(text)), None)


def tidy(text: str) -> str:
    """On one line, without what changes from one try to the next."""
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return " ".join(text.split())


def hide(text: str) -> str:
    """With ``***`` for what has the shape of a secret: logs and probes' answers are anybody's."""
    return _SECRETS.sub("***", text)


# --- of a pod ------------------------------------------------------------------------------------------------
def not_begun(pod: Object, events: Sequence[Object]) -> Cause | None:
    """Why a pod on a node has no container yet: its volumes or its sandbox."""
    found = []
    for event in _newest_first(events):
        if event.get("reason") in _BEGUN:
            break
        cause = _volume(pod, event) or _sandbox(event)
        if cause is not None:
            found.append((cause, time_of(event)))
    attached = _attached_at(events)
    causes = [
        cause
        for cause, when in found
        if cause.reason != "VolumeAttachFailed" or when >= attached.get(_volume_name(cause.message), _NEVER)
    ]
    return _most_exact(causes)


def _volume(pod: Object, event: Object) -> Cause | None:
    text = tidy(str(event.get("message") or ""))
    if event.get("reason") == "FailedAttachVolume":
        more = _one_node_only(text)
        return Cause("VolumeAttachFailed", f"{claims_of(pod)}: {text}{more}", 1)
    if event.get("reason") != "FailedMount":
        return None
    missing = absent(text)
    where = _volume_of(pod, _volume_name(text))
    if missing is not None:
        words = text.partition(" : ")[2] or text
        return Cause(missing, f"{where}: {words}", 1)
    timed_out = not text.startswith("MountVolume") and "timed out" in text
    return Cause("VolumeMountFailed", f"{where}: {text}", 3 if timed_out else 2)


def _sandbox(event: Object) -> Cause | None:
    reason = str(event.get("reason"))
    if reason not in _NO_SANDBOX:
        return None
    return Cause(reason, tidy(str(event.get("message") or "")), 2)


def probe(container: Mapping[str, Any], events: Sequence[Object]) -> Cause | None:
    """Which probe of a running container fails. Of the startup probe only its end is news: failing is its job."""
    began = moment(container.get("state", {}).get("running", {}).get("startedAt"))
    for event in _newest_first(_of_container(container, events)):
        if event.get("reason") != "Unhealthy" or time_of(event) < began:
            continue
        found = _PROBE.match(str(event.get("message") or ""))
        if found is not None and found["probe"] != "Startup":
            kind, words = found["probe"].lower(), tidy(found["words"])
            return Cause(
                "UnhealthyProbe", f"{kind} probe of container {container['name']} failed: {words}", 3
            )
    return None


def killed(
    container: Mapping[str, Any], ended: Mapping[str, Any], events: Sequence[Object]
) -> tuple[str, str] | None:
    """(``liveness`` or ``startup``, the probe's last words) where the kubelet ended the container for its probe."""
    began, finished = moment(ended.get("startedAt")), moment(ended.get("finishedAt")) + timedelta(seconds=2)
    of_run = [event for event in events if began <= time_of(event) and _first_seen(event) <= finished]
    for event in _newest_first(of_run):
        found = _KILLED.match(str(event.get("message") or "")) if event.get("reason") == "Killing" else None
        if found is not None and found[1] == container["name"]:
            return found[2], _last_words(container, of_run, found[2])
    return None


def _last_words(container: Mapping[str, Any], events: Sequence[Object], probe: str) -> str:
    for event in _newest_first(_of_container(container, events)):
        found = _PROBE.match(str(event.get("message") or ""))
        if found is not None and found["probe"].lower() == probe:
            return tidy(found["words"])
    return ""


def node_is_lost(pod: Object, since: str, events: Sequence[Object]) -> bool:
    """The node's own controller has said so, for the unreadiness that began at ``since``."""
    began = moment(since) - timedelta(seconds=60)
    return any(event.get("reason") == "NodeNotReady" and time_of(event) >= began for event in events)


def missing_pull_secrets(events: Sequence[Object]) -> str:
    """Their names as the kubelet tells them; empty where none is missing."""
    for event in _newest_first(events):
        if event.get("reason") == "FailedToRetrieveImagePullSecret":
            found = _PULL_SECRETS.search(str(event.get("message") or ""))
            return found[1] if found is not None else "one of the pod's"
    return ""


def claims_of(pod: Object) -> str:
    """``claim models``; ``claims a, b``; ``volume`` where the pod has none."""
    found = sorted(set(_claims(pod).values()))
    if not found:
        return "volume"
    return f"claim {found[0]}" if len(found) == 1 else f"claims {', '.join(found)}"


# --- of a claim ----------------------------------------------------------------------------------------------
def of_claim(events: Sequence[Object]) -> Cause | None:
    """Why a pending claim stays so. Waiting for its first pod, or for a provisioner at work, is no failure."""
    found: list[Cause] = []
    provided = False  # something newer shows that the class exists
    for event in _newest_first(events):
        reason, text = str(event.get("reason")), tidy(str(event.get("message") or ""))
        if reason == "WaitForFirstConsumer":
            break
        named = _CLASS.search(text)
        if reason == "ProvisioningFailed" and named is not None:
            if not provided:
                found.append(
                    Cause("StorageClassNotFound", f"storage class {named[1]} does not exist", 0, final=True)
                )
        elif reason == "FailedBinding" or (reason == "ProvisioningFailed" or event.get("type") == "Warning"):
            found.append(Cause(reason, text, 1))
        provided = provided or named is None
    return _most_exact(found)


# --- in general ----------------------------------------------------------------------------------------------
def _newest_first(events: Iterable[Object]) -> Iterator[Object]:
    """Those within ``RECENT`` of the newest."""
    found = sorted(events, key=time_of, reverse=True)
    for event in found:
        if time_of(found[0]) - time_of(event) <= RECENT:
            yield event


def _most_exact(causes: Iterable[Cause]) -> Cause | None:
    """Of equally exact ones the first."""
    return min(causes, key=lambda cause: cause.rank, default=None)


def _of_container(container: Mapping[str, Any], events: Iterable[Object]) -> Iterator[Object]:
    for event in events:
        path = str((event.get("involvedObject") or {}).get("fieldPath") or "")
        if not path or path.endswith(f"{{{container['name']}}}"):
            yield event


def _attached_at(events: Iterable[Object]) -> dict[str, datetime]:
    found: dict[str, datetime] = {}
    for event in events:
        if event.get("reason") == "SuccessfulAttachVolume":
            name = _volume_name(str(event.get("message") or ""))
            found[name] = max(time_of(event), found.get(name, _NEVER))
    return found


def _volume_name(text: str) -> str:
    found = _VOLUME.search(text)
    if found is not None:
        return found[1]
    unmounted = re.search(r"unmounted volumes=\[([^\]\s,]+)", text)
    return unmounted[1] if unmounted is not None else ""


def _volume_of(pod: Object, name: str) -> str:
    """The pod's volume of that name, with what it is made from. Of a claim's the kubelet knows the volume behind it."""
    claims = _claims(pod)
    if name in claims:
        return f"claim {claims[name]}"
    for volume in pod.get("spec", {}).get("volumes") or ():
        if volume["name"] != name:
            continue
        for kind, field in (("secret", "secretName"), ("configMap", "name")):
            if kind in volume:
                return f"volume {name} ({kind} {volume[kind].get(field)})"
        return f"volume {name}"
    return claims_of(pod)


def _claims(pod: Object) -> dict[str, str]:
    """Volume → claim."""
    found = {}
    for volume in pod.get("spec", {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found[str(volume["name"])] = str(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            found[str(volume["name"])] = f"{pod['metadata']['name']}-{volume['name']}"
    return found


def _one_node_only(text: str) -> str:
    if not text.startswith("Multi-Attach"):
        return ""
    return "; a volume of one node cannot feed replicas on several: its access mode must be ReadWriteMany"
