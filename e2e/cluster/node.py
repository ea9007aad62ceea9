"""The files that a node's components read. Pure: text out."""

from __future__ import annotations

import json
from typing import Any

import yaml

from e2e.cluster import components
from e2e.cluster.addresses import POD_GATEWAY, POD_SUBNET
from e2e.cluster.state import Layout

DOMAIN = "cluster.local"
PAUSE_IMAGE = "llmservice.local/pause:1"
NO_EVICTION = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
)


def files(at: Layout) -> dict[str, str]:
    """File name in the configuration folder → text."""
    return {
        "containerd.toml": containerd(at),
        "cni/10-pods.conflist": json.dumps(components.pod_network(), indent=2),
        "kubelet.yaml": yaml.safe_dump(kubelet(at)),
        "kube-proxy.yaml": yaml.safe_dump(proxy(at)),
        "resolv.conf": f"nameserver {POD_GATEWAY}\n",
        "Corefile": corefile(at),
        "local-path.json": json.dumps({"sharedFileSystemPath": str(at.shared)}),
        "helper-pod.yaml": yaml.safe_dump(helper_pod()),
    }


def containerd(at: Layout) -> str:
    """Debian's containerd with folders, socket and pause image of its own."""
    return f'''version = 2
root = "{at.folder}/containerd"
state = "/run/containerd"

[grpc]
address = "{at.containerd_socket}"

[ttrpc]
address = "{at.containerd_socket}.ttrpc"

[plugins."io.containerd.internal.v1.opt"]
path = "{at.folder}/containerd-opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Without CAP_SYS_RESOURCE no score may be lowered, and every sandbox would fail.
restrict_oom_score_adj = true
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{at.config}/cni"
'''


def kubelet(at: Layout) -> dict[str, Any]:
    """Settings for a machine that is shared: no eviction, no limits on the node itself, own cgroup root."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(at.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(at.pki / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(at.pki / "kubelet-server.key"),
        "containerRuntimeEndpoint": f"unix://{at.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{at.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": dict.fromkeys(NO_EVICTION, "0%"),
        "imageGCHighThresholdPercent": 100,
        "clusterDNS": [POD_GATEWAY],
        "clusterDomain": DOMAIN,
        "resolvConf": str(at.config / "resolv.conf"),
        "volumePluginDir": str(at.folder / "volume-plugins"),
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "3s",  # how soon fake devices count; unchanged status is still not written
    }


def proxy(at: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(at.config / "kube-proxy.kubeconfig")},
        "clusterCIDR": POD_SUBNET,
        "hostnameOverride": at.name,
        "mode": "iptables",
        # Without br_netfilter an answer from pod to pod would go past the rules that translate it back.
        "iptables": {"masqueradeAll": True},
        "oomScoreAdj": 0,
        "conntrack": {"maxPerCore": 0},
    }


def corefile(at: Layout) -> str:
    return f"""{DOMAIN}:53 in-addr.arpa:53 {{
    bind {POD_GATEWAY}
    errors
    ready {POD_GATEWAY}:8181
    cache 5
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {at.config}/coredns.kubeconfig
        pods insecure
        ttl 5
    }}
}}
"""


def helper_pod() -> dict[str, Any]:
    """What makes and removes a claim's folder."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "helper-pod",
                    "image": components.HELPER_IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
        },
    }
