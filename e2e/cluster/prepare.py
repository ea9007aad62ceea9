"""From a name and a tier to a folder that a supervisor can run: certificates, files, the plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.cluster import addresses, components, kubeconfig, node, pki, state
from e2e.cluster.addresses import POD_GATEWAY, Link
from e2e.cluster.plan import Component, Node, Plan
from e2e.cluster.state import Layout, Tier

# What a control plane without a node says its address is; nothing is published under it (TEST-NET-1).
NO_ADDRESS = "192.0.2.1"
NODE_PORTS = components.Ports(
    etcd=2379, etcd_peer=2380, apiserver=6443, controller_manager=10257, scheduler=10259
)
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True, slots=True)
class Prepared:
    at: Layout
    tier: Tier
    url: str  # of the API server, from this machine
    binaries: dict[str, Path]
    link: Link | None


def control_plane(at: Layout, binaries: dict[str, Path]) -> Prepared:
    """On free ports of 127.0.0.1; no root, no namespace."""
    ports = components.Ports(*addresses.free_ports(5))
    plane = components.ControlPlane(at, binaries, ports, "127.0.0.1", NO_ADDRESS, with_endpoints=False)
    url = f"https://127.0.0.1:{ports.apiserver}"
    _common_files(plane, url)
    stages = (
        (components.etcd(plane), components.apiserver(plane)),
        (components.controller_manager(plane), components.scheduler(plane)),
    )
    Plan(at.name, stages).write(at.plan)
    return Prepared(at, "control-plane", url, binaries, None)


def whole_node(at: Layout, binaries: dict[str, Path], archives: tuple[Path, ...]) -> Prepared:
    """A control plane and the node it controls, behind one veth pair.

    Args:
        archives: images that are imported before the first pod starts.
    """
    at.folder.mkdir(parents=True, exist_ok=True)
    with state.links_locked():  # until the plan says that it is taken
        used = [link.subnet for link in state.links()]
        link = addresses.free_link([*addresses.networks_in_use(), *used])
        plane = components.ControlPlane(
            at, binaries, NODE_PORTS, "0.0.0.0", link.node_address, with_endpoints=True
        )
        Plan(at.name, _node_stages(plane, link, archives), _namespace(at, link)).write(at.plan)
    url = f"https://{link.node_address}:{NODE_PORTS.apiserver}"
    _common_files(plane, url)
    for name, text in node.files(at).items():
        path = at.config / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    at.shared.mkdir()
    at.shared.chmod(0o777)
    return Prepared(at, "node", url, binaries, link)


def _node_stages(
    plane: components.ControlPlane, link: Link, archives: tuple[Path, ...]
) -> tuple[tuple[Component, ...], ...]:
    manifests = Path(__file__).parent / "manifests"
    return (
        (components.containerd(plane.at),),
        (components.etcd(plane), components.apiserver(plane), *components.import_images(plane.at, archives)),
        (
            components.apply_manifests(plane, manifests),
            components.controller_manager(plane),
            components.scheduler(plane),
            components.kubelet(plane, plane.at.name, link.node_address),
            components.proxy(plane),
        ),
        (components.coredns(plane), components.provisioner(plane)),
    )


def _namespace(at: Layout, link: Link) -> Node:
    return Node(
        address=f"{link.node_address}/30",
        gateway=link.host_address,
        bridge_address=f"{POD_GATEWAY}/24",
        cgroup=at.cgroup,
        kubelet=str(at.folder / "kubelet"),
    )


def _common_files(plane: components.ControlPlane, url: str) -> None:
    at = plane.at
    for folder in (at.folder, at.config, at.logs):
        folder.mkdir(parents=True, exist_ok=True)
    pki.write_all(at.pki, at.name, components.server_addresses(plane.advertise_address))
    (at.config / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))
    at.audit_log.touch()
    kubeconfig.write(at.kubeconfig, kubeconfig.render(at.name, url, at.pki, "admin"))
    for client in (*(name for name in pki.CLIENTS if name != "admin"), "kubelet"):
        kubeconfig.write(at.config / f"{client}.kubeconfig", kubeconfig.render(at.name, url, at.pki, client))
