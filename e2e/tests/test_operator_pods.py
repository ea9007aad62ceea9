"""The operator's own pods: takeover, upgrade, and an end that hangs nothing."""

from __future__ import annotations

import time
from dataclasses import replace

from e2e import target
from e2e.kubectl import Kubectl, until

SELECTOR = ("-l", "app.kubernetes.io/name=llmservice-operator")


def leader(cluster: target.Target) -> str:
    leases = Kubectl.items(in_system(cluster), "leases")
    return next(
        str(lease["spec"]["holderIdentity"]) for lease in leases if lease["spec"].get("holderIdentity")
    )


def in_system(cluster: target.Target) -> Kubectl:
    return replace(cluster.kubectl, namespace=target.OPERATOR_NAMESPACE)


def test_the_other_replica_takes_over_when_the_leader_is_killed(
    cluster: target.Target, served: Kubectl
) -> None:
    system = in_system(cluster)
    first = leader(cluster)
    # A pod killed without grace is a process killed with SIGKILL: it releases nothing.
    system("delete", "pod", first.split("_")[0], "--grace-period=0", "--force")
    started = time.monotonic()
    served(
        "patch",
        "llmsvc",
        "smollm2",
        "--type=merge",
        "-p",
        '{"spec":{"expose":{"service":{"labels":{"edited":"yes"}}}}}',
    )
    until(
        lambda: served.get("service", "smollm2")["metadata"]["labels"].get("edited"),
        lambda label: label == "yes",
        30,
    )
    print(f"took over in {time.monotonic() - started:.1f} s")
    assert leader(cluster) != first
    served("patch", "llmsvc", "smollm2", "--type=json", "-p", '[{"op":"remove","path":"/spec/expose"}]')
    until(
        lambda: "edited" in served.get("service", "smollm2")["metadata"]["labels"],
        lambda there: not there,
        30,
    )


def test_an_upgrade_with_other_defaults_restarts_no_pod(cluster: target.Target, served: Kubectl) -> None:
    def uids() -> set[str]:
        return {pod["metadata"]["uid"] for pod in served.items("pods")}

    before = uids()
    cluster.install_operator("engine.image=example.invalid/other:2", "logLevel=debug")
    system = in_system(cluster)
    system("rollout", "status", "deployment", *SELECTOR, "--timeout=90s")
    served("annotate", "llmsvc", "smollm2", "touched=yes", "--overwrite")
    time.sleep(5)
    assert uids() == before
    assert served.condition("smollm2", "Ready")["status"] == "True"


def test_without_the_operator_a_namespace_still_goes(cluster: target.Target) -> None:
    kubectl = cluster.make_namespace("orphan")
    # A namespace waits for half of its pods' longest grace before it looks again: keep that short.
    kubectl.apply(cluster.manifest(spec={"rollout": {"drainTimeout": "5s"}}))
    kubectl("wait", "--for=condition=Ready", "llmsvc/smollm2", "--timeout=120s", timeout=130)
    cluster.kubectl.run_helm("uninstall", "llmservice", "--namespace", target.OPERATOR_NAMESPACE, "--wait")
    try:
        kubectl("delete", "namespace", "orphan", "--timeout=60s")
        cluster.drop_volumes("orphan")
    finally:
        cluster.install_operator()
