"""The Deployment that is converted: what is understood is taken out of it, the rest is listed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmservice_operator.api import contract
from llmservice_operator.cli.people.conversion import command, shapes
from llmservice_operator.cli.people.conversion.command import Server
from llmservice_operator.cli.people.conversion.flags import Flags
from llmservice_operator.cli.people.conversion.notes import Notes, cleaned, named

Body = dict[str, Any]


class NotConvertible(ValueError):
    """The manifests hold nothing that could become an LLMService; the message says why."""


@dataclass
class Workload:
    at: str  # "Deployment/chat"
    metadata: Body
    spec: Body  # of the Deployment, without its template
    template: Body  # metadata of the pods
    pod: Body  # the pod's spec, without the engine's container
    engine: Body
    server: Server
    flags: Flags
    values: Mapping[str, str]  # of the variables whose values are written in the manifest
    others: list[Body]
    labels: Mapping[str, Any]  # of the pods, as they were
    port: int  # that the server listens on
    notes: Notes = field(default_factory=Notes)

    @property
    def pod_at(self) -> str:
        return f"{self.at} spec.template.spec"

    @property
    def engine_at(self) -> str:
        return f"{self.pod_at}.containers[{self.engine.get('name')}]"

    def volume(self, name: str) -> Body:
        found: Body = next((one for one in self.pod.get("volumes") or () if one.get("name") == name), {})
        return found

    def mount_over(self, path: str) -> Body | None:
        """The engine's mount that holds ``path``, the longest one."""
        mounts = [
            mount
            for mount in self.engine.get("volumeMounts") or ()
            if _is_within(path, str(mount.get("mountPath", "")))
        ]
        return max(mounts, key=lambda mount: len(str(mount["mountPath"])), default=None)

    def unmount(self, mount: Body) -> None:
        """Take the engine's mount away, and its volume where nobody else mounts it."""
        self.engine["volumeMounts"] = [one for one in self.engine["volumeMounts"] if one is not mount]
        everybody = [
            self.engine,
            *(self.pod.get("containers") or ()),
            *(self.pod.get("initContainers") or ()),
        ]
        name = mount.get("name")
        if not any(
            one.get("name") == name for container in everybody for one in container.get("volumeMounts") or ()
        ):
            self.pod["volumes"] = [one for one in self.pod.get("volumes") or () if one.get("name") != name]


def find(bodies: Iterable[Body], name: str | None = None) -> Workload:
    """The one Deployment of ``bodies`` whose container runs vLLM.

    Raises:
        NotConvertible: there is none, or there are several.
    """
    everything = [copy.deepcopy(body) for body in bodies]
    deployments = [body for body in everything if body["kind"] == "Deployment"]
    if not deployments:
        kinds = ", ".join(dict.fromkeys(str(body["kind"]) for body in everything)) or "nothing"
        raise NotConvertible(f"there is no Deployment, but {kinds}")
    wrong = next((said for body in everything if (said := shapes.problem(body))), None)
    if wrong is not None:
        raise NotConvertible(wrong)
    for body in deployments:
        _must_have_pods(body)
    found = [(body, container, server) for body in deployments for container, server in _servers(body)]
    if name is not None and len(found) > 1:
        found = [one for one in found if one[0]["metadata"]["name"] == name]
    if not found:
        raise NotConvertible(_no_server(deployments))
    if len(found) > 1:
        among = ", ".join(f"{named(body)} ({container.get('name')})" for body, container, _ in found)
        raise NotConvertible(f"{len(found)} model servers: {among}; convert them one at a time, with --name")
    body, container, server = found[0]
    return _workload(body, container, server, [other for other in everything if other is not body])


def _workload(body: Body, engine: Body, server: Server, others: list[Body]) -> Workload:
    spec = body["spec"]
    template = spec.pop("template")
    pod = template["spec"]
    pod["containers"] = [one for one in pod["containers"] if one is not engine]
    values = values_of(engine) | {name: value for name, value in server.variables.items() if "$" not in value}
    metadata = cleaned(template.get("metadata") or {})
    flags = Flags(server.arguments, values)
    port = flags.take("port") or ""
    made = Workload(
        at=named(body),
        metadata=cleaned(body["metadata"]),
        spec=spec,
        template=metadata,
        pod=pod,
        engine=engine,
        server=server,
        flags=flags,
        values=values,
        others=others,
        labels=dict(metadata.get("labels") or {}),
        port=int(port) if port.isdecimal() else contract.PORT,
    )
    for key in body.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        made.notes.left(f"{made.at} {key}", body[key])
    for words in server.beside:
        made.notes.lost(
            f"{made.engine_at}.command",
            f"the script also runs: {words}; put it into an image or an initContainer",
        )
    return made


def values_of(container: Mapping[str, Any]) -> dict[str, str]:
    """Variables with values, ``$(NAME)`` of earlier ones filled in."""
    found: dict[str, str] = {}
    for one in container.get("env") or ():
        if one.get("value") is not None:
            found[str(one.get("name"))] = command.expanded(str(one["value"]), found)
    return found


def _servers(body: Body) -> list[tuple[Body, Server]]:
    found = []
    for container in body["spec"]["template"]["spec"]["containers"]:
        known = {str(one.get("name")) for one in container.get("env") or ()}
        server = command.of(container, known)
        if server is not None:
            found.append((container, server))
    return found


def _must_have_pods(body: Body) -> None:
    at, below = named(body), body
    for key in ("spec", "template", "spec"):
        below = below.get(key)  # type: ignore[assignment]
        if not isinstance(below, dict):
            raise NotConvertible(f"{at} has no spec.template.spec")
    containers = below.get("containers")
    if not isinstance(containers, list) or not all(isinstance(one, dict) for one in containers):
        raise NotConvertible(f"{at} has no list of containers")
    if not isinstance(body.get("metadata"), dict) or not body["metadata"].get("name"):
        raise NotConvertible("a Deployment has no metadata.name")


def _no_server(deployments: list[Body]) -> str:
    said = []
    for body in deployments:
        containers = body["spec"]["template"]["spec"]["containers"]
        other = next((found for one in containers if (found := command.other(one))), None)
        what = f"runs {other}" if other else "runs no model server"
        said.append(f"{named(body)} {what}")
    return f"{'; '.join(said)}: only vLLM's server is converted (docs/guides/moving.md has the others)"


def _is_within(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")
