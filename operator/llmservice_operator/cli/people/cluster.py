"""What the people's commands ask a cluster: reads, and dry runs. Nothing is ever written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes_asyncio import config as kubernetes_config

from llmservice_operator.api import names
from llmservice_operator.cli.people.answers import BadInput
from llmservice_operator.live import kinds
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.connection import Connection, NoCluster
from llmservice_operator.live.kinds import Kind

_IN_A_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DRY_RUN = "dryRun=All&fieldValidation=Strict"
ASKING = "llmservice-preflight"  # field manager of a dry run

Body = dict[str, Any]


class Cluster:
    """One session with the API server, as the person that KUBECONFIG names."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def service(self, namespace: str, name: str) -> Body | None:
        """None where there is no such object.

        Raises:
            BadInput: it cannot be read; the server's own words.
        """
        try:
            return await self.client.get(kinds.LLMSERVICE.path(namespace, name))
        except ApiError as error:
            if error.code == 404 and name in error.message:
                return None
            if error.code == 404:
                raise BadInput(
                    f"the cluster does not serve {names.PLURAL}.{names.GROUP}: is the chart installed?"
                ) from None
            raise BadInput(error.message) from None

    async def try_out(self, body: Mapping[str, Any], kind: Kind = kinds.LLMSERVICE) -> None:
        """A dry run of the object's server-side apply.

        Raises:
            ApiError: the API server would refuse it.
        """
        metadata = body["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        await self.client.apply(f"{path}?{DRY_RUN}", body, ASKING)

    async def get(self, path: str) -> Body:
        """Raises ApiError."""
        return await self.client.get(path)

    async def all(self, path: str, selector: str = "") -> list[Body]:
        """A whole collection. Raises ApiError."""
        return [item async for page, _ in self.client.pages(path, selector, 0.0) for item in page]


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Cluster]:
    """Raises BadInput where no cluster is named."""
    if not _named():
        raise BadInput(f"no cluster to talk to: there is no {_kubeconfig()}; set KUBECONFIG")
    try:
        connection = await Connection.load()
    except NoCluster as error:
        raise BadInput(f"{error} ({_kubeconfig()}); set KUBECONFIG") from None
    async with connection.session() as session:
        yield Cluster(Client(session, connection.server))


def _kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def _named() -> bool:
    """Is there a file to read, or are we in a pod?"""
    files = [Path(one).expanduser() for one in _kubeconfig().split(os.pathsep) if one]
    return _IN_A_POD.exists() or any(file.is_file() for file in files)


def namespace() -> str:
    """Where kubectl would look: the context's namespace."""
    if not _named():
        return "default"
    try:
        _, active = kubernetes_config.list_kube_config_contexts()
        return str(active["context"].get("namespace") or "default")
    except (kubernetes_config.ConfigException, OSError, KeyError, TypeError, yaml.YAMLError):
        return _IN_A_POD.read_text().strip() if _IN_A_POD.exists() else "default"
