"""The running server: every part wired together, from start to exit.

Replicas are equal: none leads, each serves, and what they write (certificate, APIServices) comes out the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.connection import Connection
from llmservice_operator.metrics_api import callers, departure, follow, keeper, pods, probes, scraper
from llmservice_operator.metrics_api.callers import FrontProxy, NoFrontProxy
from llmservice_operator.metrics_api.certificate import Material
from llmservice_operator.metrics_api.departure import OwnNamespace
from llmservice_operator.metrics_api.follow import Follower
from llmservice_operator.metrics_api.keeper import Keeper
from llmservice_operator.metrics_api.listener import Listener
from llmservice_operator.metrics_api.pods import ReadyPods
from llmservice_operator.metrics_api.registration import Registration, Target
from llmservice_operator.metrics_api.reviews import Reviews
from llmservice_operator.metrics_api.routes import Api
from llmservice_operator.metrics_api.scraper import Scraper

LOOK = 30.0  # seconds between two looks at Secret, ConfigMap and APIServices
RETRY = 2.0
ADMITTED = 30.0  # seconds that the kubelet gets to find us ready, before we register
SETTLE = 1.0  # seconds from there until the Service leads to us
LINGER = 3.0  # seconds that we serve on after SIGTERM, while the Service still leads to us
IDLE = 75.0  # seconds that an idle connection is kept
WITHDRAW = 5.0  # seconds for removing the APIServices

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    namespace: str
    name: str  # of our Deployment, Service, ClusterRole and Secret
    port: int = 8443
    health_port: int = 8080
    kubeconfig: Path | None = None


async def run(options: Options) -> int:
    """Run until a signal (0) or until a part ends for good (1).

    Raises:
        NoCluster: there is nothing to connect to.
        PortTaken: one of the ports is taken.
    """
    # It logs each malformed request of a stranger with its stack; our own errors are logged where they are answered.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    connection = await Connection.load(options.kubeconfig)
    async with connection.session() as session, scraper.session() as to_pods:
        return await Process(session, connection.server, to_pods, options).run()


class Process:
    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        to_pods: aiohttp.ClientSession,
        options: Options,
    ) -> None:
        namespace, name = options.namespace, options.name
        self._options = options
        self._client = client = Client(session, server)
        self._pods = ReadyPods()
        self._namespace = OwnNamespace(namespace)
        self._follows_pods = Follower(session, server, pods.PATH, pods.SELECTION, self._pods)
        self._follows_namespace = Follower(
            session, server, self._namespace.path, self._namespace.selection, self._namespace
        )
        dns = (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local", f"{name}.{namespace}")
        self._keeper = Keeper(client, f"/api/v1/namespaces/{namespace}/secrets/{name}", dns)
        self._registration = Registration(client, Target(namespace, name, name))
        self._api = Api(self._pods, Scraper(to_pods), Reviews(client))
        self._runner = web.AppRunner(
            self._api.application(), access_log=None, keepalive_timeout=IDLE, shutdown_timeout=1.0
        )
        self._listener: Listener | None = None
        self._serving: tuple[Material, FrontProxy] | None = None
        self._told_ready = asyncio.Event()  # the kubelet has asked, and heard that we are
        self._stopping = False

    async def run(self) -> int:
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told.set)
        plain = await probes.serve(self._options.health_port, self._unhealthy, self._unready)
        try:
            await self._runner.setup()
            assert self._runner.server is not None, "as it is after setup"
            self._listener = Listener(self._options.port, self._runner.server)
            return await self._until(told)
        finally:
            if self._listener is not None:
                self._listener.close()
            await self._runner.cleanup()
            await plain.cleanup()

    async def _until(self, told: asyncio.Event) -> int:
        """Work until we are told to stop; then leave nothing behind that leads nowhere."""
        work = asyncio.create_task(self._work(), name="work")
        signalled = asyncio.create_task(told.wait(), name="signal")
        await asyncio.wait({work, signalled}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            signalled.cancel()
            logger.error("a part has ended", exc_info=work.exception())
            return 1
        self._stopping = True
        final = self._namespace.going.is_set() or await departure.is_final(
            self._client, self._options.namespace, self._options.name
        )
        if final:
            await self._withdraw()
        await asyncio.sleep(LINGER)
        work.cancel()
        await asyncio.wait({work})
        logger.info("stopped")
        return 0

    async def _work(self) -> None:
        """Ends only by an exception."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follows_pods.forever(), name="pods")
            group.create_task(self._follows_namespace.forever(), name="namespace")
            group.create_task(self._keep_serving(), name="certificate")
            group.create_task(self._keep_registered(), name="registration")
            group.create_task(self._leave_with_namespace(), name="leaving")

    # --- what is kept as it should be ------------------------------------------------------------------------
    async def _keep_serving(self) -> None:
        """The certificate in its Secret, and the front proxy's authority, as of the last look."""
        while True:
            try:
                await self._serve_with(await self._keeper.look(), await self._front_proxy())
                pause = LOOK
            except (ApiError, NoFrontProxy) as error:
                logger.warning("certificate or front proxy: %s", error)
                pause = RETRY if self._serving is None else LOOK
            await asyncio.sleep(pause)

    async def _front_proxy(self) -> FrontProxy:
        return FrontProxy.parse(await self._client.get(callers.CONFIGMAP))

    async def _serve_with(self, material: Material, proxy: FrontProxy) -> None:
        if self._serving == (material, proxy):
            return
        assert self._listener is not None, "made before the work begins"
        before = self._serving
        if before is not None and before[0].authority != material.authority:
            # Believed first, shown then.
            with contextlib.suppress(ApiError):
                await self._register(material)
        await self._listener.use(keeper.context(material, proxy))
        self._api.front_proxy = proxy
        self._serving = (material, proxy)
        logger.info("serving with a certificate that ends on %s", f"{material.expires:%Y-%m-%d}")

    async def _keep_registered(self) -> None:
        """From when the Service leads to us: an APIService without a server behind it is felt by everybody."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._told_ready.wait(), ADMITTED)
        await asyncio.sleep(SETTLE)
        while True:
            pause = RETRY
            if self._serving is not None and self._unready() is None:
                try:
                    await self._register(self._serving[0])
                    pause = LOOK
                except ApiError as error:
                    logger.warning("not registered: %s", error.message)
            await asyncio.sleep(pause)

    async def _register(self, material: Material) -> None:
        if not self._stopping and not self._namespace.going.is_set():
            await self._registration.ensure(material.authority)

    async def _leave_with_namespace(self) -> None:
        await self._namespace.going.wait()
        logger.info("our namespace is being deleted")
        while True:
            await self._withdraw()
            await asyncio.sleep(RETRY)  # another replica may have registered at the last moment

    async def _withdraw(self) -> None:
        try:
            async with asyncio.timeout(WITHDRAW):
                await self._registration.withdraw()
        except (ApiError, TimeoutError) as error:
            logger.warning("APIServices not removed: %s", error or "no answer in time")

    # --- probes ----------------------------------------------------------------------------------------------
    def _unhealthy(self) -> str | None:
        silence = self._follows_pods.silence()
        return f"the watch of pods has been silent for {silence:.0f} s" if silence > follow.SILENCE else None

    def _unready(self) -> str | None:
        if self._stopping:
            return "stopping"
        if self._serving is None:
            return "no certificate, or no front proxy, yet"
        if not self._follows_pods.listed:
            return "the pods have not been listed yet"
        self._told_ready.set()
        return None
