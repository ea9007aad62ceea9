"""The metrics server as a process outside the cluster, and engines that are HTTP servers of this machine.

The server's Service has no selector and leads to this machine; each engine has an address of its own in 127.0.0.0/8,
and its pod is said to have that.
"""

from __future__ import annotations

import http.server
import itertools
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import yaml
from llmservice_operator.api import contract

from tests.operator.control_plane import conftest, kube
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import ACCOUNT, NAMESPACE, Replica, free_port
from tests.operator.control_plane.kube import Body, Kube

NAME = f"{ACCOUNT}-metrics-api"
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
VERSIONS = ("v1beta2", "v1beta1")

_numbers = itertools.count(1)


class Engine:
    """Answers ``/metrics`` on an address of its own, on the port that every engine has."""

    def __init__(self) -> None:
        self.waiting: float = 0
        self.silent = False
        self.asked = 0
        self.address = f"127.{1 + (os.getpid() >> 8) % 250}.{os.getpid() & 255}.{next(_numbers)}"
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.asked += 1
                if engine.silent:
                    return self.close_connection and None
                body = (
                    f'vllm:num_requests_waiting{{model_name="m"}} {engine.waiting}\n'
                    'vllm:num_requests_running{model_name="m"} 2.0\n'
                    'vllm:kv_cache_usage_perc{model_name="m"} 0.5\n'
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return None

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((self.address, contract.PORT), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Engines:
    """An engine for every pod of a service, as a kubelet would start them."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.of_pod: dict[str, Engine] = {}
        self.waiting: float = 0

    def start(self) -> int:
        """Say that every pod runs at the address of its engine; how many pods there are."""
        found = self._place.kube.make_pods_ready(self._place.name, "chat")
        for pod in self._place.kube.list("Pod", self._place.name):
            if "deletionTimestamp" not in pod["metadata"] and not (pod.get("status") or {}).get("podIP"):
                engine = self.of_pod.setdefault(pod["metadata"]["name"], Engine())
                engine.waiting = self.waiting
                status = {"podIP": engine.address, "podIPs": [{"ip": engine.address}]}
                self._place.kube.patch(
                    "Pod", pod["metadata"]["name"], self._place.name, {"status": status}, "status"
                )
        return found

    def say(self, waiting: float) -> None:
        self.waiting = waiting
        for engine in self.of_pod.values():
            engine.waiting = waiting

    def hush(self, silent: bool = True) -> None:
        for engine in self.of_pod.values():
            engine.silent = silent

    def end(self) -> None:
        for engine in self.of_pod.values():
            engine.end()


class Server:
    """``llmservice-operator metrics-api`` as a process, with the rights that the chart gives it."""

    def __init__(self, kubernetes: Kube, folder: Path, namespace: str = NAMESPACE) -> None:
        self.kube = kubernetes
        self.namespace = namespace
        self._folder = folder
        self._kubeconfig = folder / "metrics-api.kubeconfig"
        self._kubeconfig.write_text(config(kubernetes, namespace))
        self.running: list[Replica] = []

    def start(self) -> Replica:
        number = next(_numbers)
        port, health = free_port(), free_port()
        log = self._folder / f"metrics-api-{number}.log"
        command = [
            *(sys.executable, "-m", "llmservice_operator", "metrics-api"),
            *(f"--kubeconfig={self._kubeconfig}", f"--name={NAME}", f"--namespace={self.namespace}"),
            *(f"--port={port}", f"--health-port={health}"),
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        replica = Replica(str(port), process, health, log)
        self.running.append(replica)
        kube.eventually(lambda: replica.probe("readyz") == 200, 30, f"it is ready: {log.read_text()}")
        self.lead_to_last()
        return replica

    def lead_to_last(self) -> None:
        """The Service leads to the last one, by an address of this machine that is not its loopback."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))
            address = probe.getsockname()[0]
        labels = {"kubernetes.io/service-name": NAME}
        self.kube.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": NAME, "namespace": self.namespace, "labels": labels},
                "addressType": "IPv4",
                "ports": [{"name": "api", "port": int(self.running[-1].identity), "protocol": "TCP"}],
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            }
        )

    def keep_one(self) -> Replica:
        self.running = [one for one in self.running if one.process.poll() is None]
        if not self.running:
            self.start()
        available(self.kube)
        return self.running[0]

    def stop_all(self) -> None:
        for one in self.running:
            if one.process.poll() is None:
                one.stop()
        self.running.clear()

    def kill_all(self) -> None:
        for one in self.running:
            one.process.kill()
            one.process.wait()


def install(kubernetes: Kube, namespace: str) -> None:
    """What the chart makes for the server, its Service without a selector."""
    command = [
        str(kubernetes.cluster.helm),
        "template",
        ACCOUNT,
        str(conftest.CHART),
        f"--namespace={namespace}",
    ]
    only = ["--show-only=templates/metrics-api-rbac.yaml", "--show-only=templates/metrics-api.yaml"]
    text = subprocess.run([*command, *only], text=True, capture_output=True, check=True).stdout
    objects = [found for found in yaml.safe_load_all(text) if found]
    for found in objects:
        if found["kind"] == "Service":
            del found["spec"]["selector"]
        if found["kind"] == "Deployment":
            found["spec"]["replicas"] = 1
    kubernetes.apply(*objects)


def config(kubernetes: Kube, namespace: str) -> str:
    token = kubernetes.kubectl("create", "token", NAME, "-n", namespace, "--duration=2h").stdout.strip()
    at = {"server": kubernetes.server, "certificate-authority-data": kubernetes.ca}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "test", "user": "it"}}],
            "clusters": [{"name": "test", "cluster": at}],
            "users": [{"name": "it", "user": {"token": token}}],
        }
    )


def api_service(kubernetes: Kube, version: str) -> Body | None:
    return kubernetes.call("GET", f"{APISERVICES}/{version}.custom.metrics.k8s.io")


def available(kubernetes: Kube, within: float = 30) -> None:
    for version in VERSIONS:
        kube.eventually(
            lambda version=version: (
                kube.condition(api_service(kubernetes, version), "Available").get("status") == "True"
            ),
            within,
            f"{version} is available: {api_service(kubernetes, version)}",
        )
