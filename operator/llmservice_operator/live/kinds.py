"""The kinds that the operator watches, lists and writes: one row each.

A new child kind is one more row here; everything else (watch, store, relist, apply) follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from llmservice_operator.api import names

_OURS = f"{names.MANAGED_BY_LABEL}={names.MANAGER}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind and where the API server serves it."""

    kind: str
    group: str  # "" is the core group
    version: str
    plural: str
    selector: str = ""  # label selector of what we watch; empty: all of them
    written: bool = False  # a child: the operator creates, patches and deletes it
    optional: bool = False  # somebody else's: a cluster may not serve it, and then it is not in use

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of the collection (of one namespace, or of all) or of one object in it."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{within}/{self.plural}" + (f"/{name}" if name else "")


LLMSERVICE: Final = Kind(names.KIND, names.GROUP, names.VERSION, names.PLURAL)
DEPLOYMENT: Final = Kind("Deployment", "apps", "v1", "deployments", _OURS, written=True)
REVISION: Final = Kind("ControllerRevision", "apps", "v1", "controllerrevisions", _OURS, written=True)
SERVICE: Final = Kind("Service", "", "v1", "services", _OURS, written=True)
POD: Final = Kind("Pod", "", "v1", "pods", _OURS)
JOB: Final = Kind("Job", "batch", "v1", "jobs", _OURS, written=True)
CLAIM: Final = Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", written=True)
AUTOSCALER: Final = Kind(
    "HorizontalPodAutoscaler", "autoscaling", "v2", "horizontalpodautoscalers", _OURS, written=True
)
DISRUPTION: Final = Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", _OURS, written=True)
NETWORK: Final = Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies", _OURS, written=True)
MONITOR: Final = Kind(
    "PodMonitor", "monitoring.coreos.com", "v1", "podmonitors", _OURS, written=True, optional=True
)
ROUTE: Final = Kind(
    "HTTPRoute", "gateway.networking.k8s.io", "v1", "httproutes", _OURS, written=True, optional=True
)
SCALED_OBJECT: Final = Kind(
    "ScaledObject", "keda.sh", "v1alpha1", "scaledobjects", _OURS, written=True, optional=True
)

ALL: Final = (
    *(LLMSERVICE, DEPLOYMENT, REVISION, SERVICE, POD, JOB, CLAIM, AUTOSCALER, DISRUPTION, NETWORK),
    *(MONITOR, ROUTE, SCALED_OBJECT),
)
REQUIRED: Final = tuple(kind for kind in ALL if not kind.optional)
OPTIONAL: Final = tuple(kind for kind in ALL if kind.optional)
CHILDREN: Final[Mapping[str, Kind]] = {kind.kind: kind for kind in ALL if kind.written}


def reduced(kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
    """What is worth keeping of an object: never ``managedFields``, and of a stranger's claim only its state."""
    metadata = {key: value for key, value in body.get("metadata", {}).items() if key != "managedFields"}
    if kind is not CLAIM:
        kept = {**body, "metadata": metadata}
        kept.setdefault("apiVersion", kind.api_version)
        kept.setdefault("kind", kind.kind)
        return kept
    spec, status = body.get("spec") or {}, body.get("status") or {}
    ours = (metadata.get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGER
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata if ours else {key: metadata[key] for key in _CLAIM_METADATA if key in metadata},
        "spec": {key: spec[key] for key in _CLAIM_SPEC if key in spec},
        "status": {key: status[key] for key in _CLAIM_STATUS if key in status},
    }


_CLAIM_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
_CLAIM_SPEC = ("accessModes", "resources", "storageClassName", "volumeMode", "volumeName")
_CLAIM_STATUS = ("accessModes", "capacity", "conditions", "phase")
