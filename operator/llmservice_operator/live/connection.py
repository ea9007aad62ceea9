"""One way to the API server, for our own requests and for kopf's watches.

Credentials come from a kubeconfig or from the pod's service account; the token is read again before it expires
(the kubelet rotates it about every hour), for each request, so nothing has to be restarted.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes_asyncio import config as kubernetes_config
from kubernetes_asyncio.client import Configuration

from llmservice_operator.api import names

USER_AGENT = names.MANAGER


class NoCluster(RuntimeError):
    """There is no kubeconfig and this is no pod."""


@dataclass
class Watches:
    """When each watch was last heard to live: kopf's own liveness says nothing about them."""

    clock: Callable[[], float] = time.monotonic
    answered: dict[str, float] = field(
        default_factory=dict
    )  # URL path → time of its last answer: each watch ends and is renewed within minutes

    def mark(self, path: str) -> None:
        self.answered[path] = self.clock()

    def quietest(self, expected: int, since: float) -> float:
        """Seconds since the quietest of ``expected`` watches was heard of; the first of them began at ``since``."""
        times = [*self.answered.values()]
        return self.clock() - min([*times, *([since] if len(times) < expected else [])])


def _in_a_pod() -> bool:
    return Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists()


class Connection:
    """Where the API server is and how to be believed there."""

    def __init__(self, configuration: Any) -> None:
        self._configuration = configuration
        self.server: str = configuration.host
        self.watches = Watches()

    @classmethod
    async def load(cls, kubeconfig: Path | None = None) -> Connection:
        """From ``kubeconfig``, else the pod's service account, else KUBECONFIG or ``~/.kube/config``.

        Raises:
            NoCluster: none of them is there, or it cannot be read.
        """
        configuration = Configuration()
        try:
            if kubeconfig is not None:
                await kubernetes_config.load_kube_config(str(kubeconfig), client_configuration=configuration)
            elif _in_a_pod():
                kubernetes_config.load_incluster_config(client_configuration=configuration)
            else:
                await kubernetes_config.load_kube_config(client_configuration=configuration)
        except (kubernetes_config.ConfigException, OSError, yaml.YAMLError) as error:
            raise NoCluster(f"no cluster to talk to: {error}") from error
        return cls(configuration)

    def session(self) -> aiohttp.ClientSession:
        """A new session of the running event loop. URLs are absolute: :attr:`server` may have a path."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls(), limit=0),
            headers={"User-Agent": USER_AGENT},
            middlewares=(self._authorise,),
            trust_env=True,
        )

    def _tls(self) -> ssl.SSLContext:
        given = self._configuration
        context = ssl.create_default_context(cafile=given.ssl_ca_cert)
        if given.cert_file:
            context.load_cert_chain(given.cert_file, given.key_file)
        if not given.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    async def _authorise(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        token = await self._configuration.get_api_key_with_prefix("BearerToken")
        if token:
            request.headers["Authorization"] = token
        if self._configuration.tls_server_name:
            request.server_hostname = self._configuration.tls_server_name
        response = await handler(request)
        if response.status == 200 and request.url.query.get("watch") == "true":
            self.watches.mark(request.url.path)
        return response
