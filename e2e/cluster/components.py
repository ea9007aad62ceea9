"""The command line of every component. Pure: settings in, ``Component`` out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.addresses import FIRST_SERVICE_ADDRESS, POD_GATEWAY, POD_SUBNET, SERVICE_SUBNET
from e2e.cluster.plan import Component
from e2e.cluster.state import Layout

NAMESPACE_OF_PROVISIONER = "local-path-storage"
HELPER_IMAGE = "llmservice.local/busybox:1"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the control plane listens."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """What the control plane's command lines depend on."""

    at: Layout
    binaries: dict[str, Path]  # module → folder
    ports: Ports
    bind_address: str
    advertise_address: str
    with_endpoints: bool  # publish the advertised address as the Service ``kubernetes``

    def kube(self, name: str) -> str:
        return str(self.binaries["kubernetes"] / name)

    def kubeconfig(self, client: str) -> str:
        return str(self.at.config / f"{client}.kubeconfig")


def etcd(plane: ControlPlane) -> Component:
    listen = f"http://127.0.0.1:{plane.ports.etcd}"
    peer = f"http://127.0.0.1:{plane.ports.etcd_peer}"
    argv = (
        str(plane.binaries["etcd"] / "etcd"),
        f"--data-dir={plane.at.folder / 'etcd'}",
        f"--listen-client-urls={listen}",
        f"--advertise-client-urls={listen}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    )
    return Component("etcd", argv, f"{listen}/readyz")


def apiserver(plane: ControlPlane) -> Component:
    pki, port = plane.at.pki, plane.ports.apiserver
    argv = (
        plane.kube("kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{plane.ports.etcd}",
        f"--bind-address={plane.bind_address}",
        f"--advertise-address={plane.advertise_address}",
        f"--endpoint-reconciler-type={'lease' if plane.with_endpoints else 'none'}",
        f"--secure-port={port}",
        f"--service-cluster-ip-range={SERVICE_SUBNET}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'kube-apiserver.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
        "--enable-aggregator-routing=true",
        f"--kubelet-client-certificate={pki / 'kube-apiserver-kubelet.crt'}",
        f"--kubelet-client-key={pki / 'kube-apiserver-kubelet.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--audit-log-path={plane.at.audit_log}",
        f"--audit-policy-file={plane.at.config / 'audit-policy.yaml'}",
        "--audit-log-maxsize=1000",
    )
    return Component("kube-apiserver", argv, f"https://127.0.0.1:{port}/readyz")


def controller_manager(plane: ControlPlane) -> Component:
    pki, port = plane.at.pki, plane.ports.controller_manager
    argv = (
        plane.kube("kube-controller-manager"),
        f"--kubeconfig={plane.kubeconfig('kube-controller-manager')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={plane.at.folder / 'controller-manager'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--horizontal-pod-autoscaler-sync-period=2s",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    )
    return Component("kube-controller-manager", argv, f"https://127.0.0.1:{port}/healthz")


def scheduler(plane: ControlPlane) -> Component:
    port = plane.ports.scheduler
    argv = (
        plane.kube("kube-scheduler"),
        f"--kubeconfig={plane.kubeconfig('kube-scheduler')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={plane.at.folder / 'scheduler'}",
        "--leader-elect=false",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    )
    return Component("kube-scheduler", argv, f"https://127.0.0.1:{port}/healthz")


def containerd(at: Layout) -> Component:
    argv = ("containerd", f"--config={at.config / 'containerd.toml'}")
    return Component("containerd", argv, str(at.containerd_socket))


def import_images(at: Layout, archives: tuple[Path, ...]) -> tuple[Component, ...]:
    ctr = ("ctr", f"--address={at.containerd_socket}", "--namespace=k8s.io", "images", "import")
    return tuple(Component(f"import-{path.stem}", (*ctr, str(path)), ends=True) for path in archives)


def kubelet(plane: ControlPlane, node: str, address: str) -> Component:
    argv = (
        plane.kube("kubelet"),
        f"--config={plane.at.config / 'kubelet.yaml'}",
        f"--kubeconfig={plane.kubeconfig('kubelet')}",
        f"--hostname-override={node}",
        f"--node-ip={address}",
        f"--cert-dir={plane.at.folder / 'kubelet-certificates'}",
    )
    return Component("kubelet", argv, "http://127.0.0.1:10248/healthz")


def proxy(plane: ControlPlane) -> Component:
    argv = (plane.kube("kube-proxy"), f"--config={plane.at.config / 'kube-proxy.yaml'}")
    return Component("kube-proxy", argv, "http://127.0.0.1:10256/healthz")


def coredns(plane: ControlPlane) -> Component:
    binary = str(plane.binaries["coredns"] / "coredns")
    return Component(
        "coredns", (binary, "-conf", str(plane.at.config / "Corefile")), f"http://{POD_GATEWAY}:8181/ready"
    )


def provisioner(plane: ControlPlane) -> Component:
    argv = (
        str(plane.binaries["local-path-provisioner"] / "local-path-provisioner"),
        "start",
        f"--config={plane.at.config / 'local-path.json'}",
        f"--helper-pod-file={plane.at.config / 'helper-pod.yaml'}",
        f"--kubeconfig={plane.kubeconfig('local-path-provisioner')}",
        f"--namespace={NAMESPACE_OF_PROVISIONER}",
        f"--helper-image={HELPER_IMAGE}",
        "--service-account-name=local-path-helper",
    )
    return Component("local-path-provisioner", argv)


def apply_manifests(plane: ControlPlane, folder: Path) -> Component:
    kubectl = (plane.kube("kubectl"), f"--kubeconfig={plane.at.kubeconfig}")
    return Component("apply-manifests", (*kubectl, "apply", "--server-side", "-f", str(folder)), ends=True)


def server_addresses(advertised: str) -> tuple[str, ...]:
    """What the API server's certificate has to name."""
    return ("127.0.0.1", advertised, FIRST_SERVICE_ADDRESS)


def pod_network() -> dict[str, object]:
    """The CNI configuration list: one bridge, addresses from one file, host ports."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": POD_SUBNET, "gateway": POD_GATEWAY}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }
