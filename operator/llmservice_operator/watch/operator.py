"""The running operator: every part wired together, from start to exit.

Crash-only: whatever ends for good (kopf, the lease, a worker) ends the process, and its restart is the recovery.
A follower watches as the leader does, so that it can take over with its store warm; it writes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from llmservice_operator.api import crd, names
from llmservice_operator.api.cache_key import CacheKey
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.controller import Controller, Next
from llmservice_operator.inquiry import Inquiry
from llmservice_operator.live import discovery, kinds, lease, scaling, schema
from llmservice_operator.live.client import Client
from llmservice_operator.live.cluster import Cluster
from llmservice_operator.live.connection import Connection
from llmservice_operator.live.events import EventReader, Recorder
from llmservice_operator.live.kinds import Kind
from llmservice_operator.live.lease import Lease, Lost, Rival
from llmservice_operator.live.nodes import Nodes
from llmservice_operator.live.pods import Pods
from llmservice_operator.live.scaling import Scaling
from llmservice_operator.live.store import Body, Key, Store
from llmservice_operator.watch import metrics, probes, tracing
from llmservice_operator.watch.queue import Queue, Urgency
from llmservice_operator.watch.relist import Relist
from llmservice_operator.watch.shell import SILENCE, Shell

DEBOUNCE = 0.1  # seconds: a child's events come in flurries
STUCK = 120.0  # seconds that a key may wait for a worker before the process counts as sick
FINISH = 1.5  # seconds that running reconciles get at the end; with lease.DEADLINE less than lease.DURATION
RELEASE = 1.0  # seconds for giving the leases back
RESPONSIVE = 5.0  # seconds that the watches' event loop may take for a trifle
SEEN_TO = "a restart sees to it"

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Ended(RuntimeError):
    """A part that must never end has ended."""


@dataclass(frozen=True, slots=True)
class Options:
    lease_namespace: str
    lease_name: str
    identity: str
    defaults: Defaults = field(default_factory=Defaults)
    health_port: int = 8080
    workers: int = 8
    kubeconfig: Path | None = None
    namespaces: tuple[str, ...] = ()  # empty: all
    cluster_lease_namespace: str = names.CLUSTER_LEASE_NAMESPACE

    @property
    def install(self) -> str:
        """The same for all replicas of an install, and for no other install."""
        return f"{self.lease_namespace}/{self.lease_name}"


async def run(options: Options) -> int:
    """Run until a signal (0) or until a part ends for good (1).

    Raises:
        NoCluster: there is nothing to connect to.
        PortTaken: the probes cannot be served.
    """
    connection = await Connection.load(options.kubeconfig)
    async with connection.session() as session:
        client = tracing.client(session, connection.server)
        code = await Process(connection, client, options).run()
        tracing.flush(client)
        return code


class Process:
    """What lasts as long as the process: probes, signals, the leases, and between them one :class:`Operator`."""

    def __init__(self, connection: Connection, client: Client, options: Options) -> None:
        self._options = options
        self._connection = connection
        self._client = client
        own = Lease(client, options.lease_namespace, options.lease_name, options.identity)
        self._leases = (own,) if options.namespaces else (own, self._cluster_wide())
        self._operator: Operator | None = None  # from when it is known which kinds there are to watch

    async def run(self) -> int:
        runner = await probes.serve(self._options.health_port, self._unhealthy, self._unready, self._state)
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told.set)
        work = asyncio.create_task(self._work(), name="work")
        signalled = asyncio.create_task(told.wait(), name="signal")
        await asyncio.wait({work, signalled}, return_when=asyncio.FIRST_COMPLETED)
        signalled.cancel()
        if work.done():
            _explain(work.exception())
        work.cancel()
        await asyncio.wait({work})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELEASE):
                for held in reversed(self._leases):
                    await held.release()
        await runner.cleanup()
        logger.info("stopped" if told.is_set() else "stopped, to be restarted")
        return 0 if told.is_set() else 1

    async def _work(self) -> None:
        """Ends only by an exception."""
        logger.info("starting as %s", self._options.identity)
        await schema.wait_served(self._client)
        in_use = await discovery.in_use(self._client)
        self._operator = Operator(self._connection, self._client, self._leases, self._options, in_use)
        await self._operator.work()

    def _cluster_wide(self) -> Lease:
        where, install = self._options.cluster_lease_namespace, self._options.install

        def idle(rival: Rival) -> None:
            logger.warning(
                "another cluster-wide install serves this cluster: %s, by the Lease %s/%s. This one (%s) stays idle "
                "until that one ends. Uninstall one of the two, or give each its own namespaces (--namespace)",
                *(rival, where, names.CLUSTER_LEASE, install),
            )

        return lease.cluster_wide(self._client, where, install, idle)

    async def _unhealthy(self) -> str | None:
        return None if self._operator is None else await self._operator.unhealthy()

    async def _unready(self) -> str | None:
        if self._operator is None:
            return "the API server has not said yet which kinds it serves"
        return await self._operator.unready()

    def _state(self) -> str:
        """Of what is ready. An install that has to stay idle is: it takes over when the other one ends."""
        rival = None if self._operator is None else self._operator.rival
        return "ok" if rival is None else f"ok, but idle: another cluster-wide install serves, {rival}"


class Operator:
    """Watches the kinds ``in_use`` and, while it leads, reconciles."""

    def __init__(
        self,
        connection: Connection,
        client: Client,
        leases: tuple[Lease, ...],
        options: Options,
        in_use: tuple[Kind, ...],
    ) -> None:
        self._options = options
        self._connection = connection
        self._client = client
        self._leases = leases  # all of them are held, in this order, by whoever leads
        self._store = Store(in_use)
        self._queue: Queue[Key | CacheKey] = Queue()
        self._to_pods = aiohttp.ClientSession()  # plain: pods are no API server, and get no credentials
        self._controller = Controller(
            self._store,
            Cluster(client, self._store),
            options.defaults,
            Inquiry(EventReader(client), Pods(self._to_pods), Nodes(client), Scaling(client)),
            Recorder(client),
            options.lease_namespace,
        )
        self._handle = tracing.reconciles(client, self._store, self._controller.handle)
        self._relist = Relist(client, self._store, options.namespaces, self._learnt)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._shell = Shell(connection, in_use, options.namespaces, self._heard, self._shell_ended)
        self._watching_since: float | None = None
        self._leading = False
        metrics.QUEUE_DEPTH.set_function(self._queue.depth)
        metrics.QUEUE_AGE.set_function(self._queue.age)
        metrics.LEADER.set_function(lambda: float(self._leading))
        metrics.IDLE.set_function(lambda: float(self.rival is not None))
        metrics.WATCH_SILENCE.set_function(self._silence)
        metrics.OBJECTS.services = self._services

    @property
    def rival(self) -> Rival | None:
        """The cluster-wide install for which this one, as the leader of its own replicas, has to wait."""
        return next((one.rival for one in self._leases[1:] if one.rival is not None), None)

    async def work(self) -> None:
        """Watch; wait to lead; lead. Ends only by an exception."""
        await self._relist.first()
        self._watching_since = time.monotonic()
        self._shell.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._shell_lives(), name="kopf")
                group.create_task(self._kinds_stay(), name="kinds")
                group.create_task(self._relist.forever(), name="relist")
                group.create_task(self._check_schema(), name="schema")
                logger.info("watching; waiting to lead")
                for one in self._leases:
                    await one.acquire()
                    group.create_task(one.hold(), name="lease")
                logger.info("leading")
                self._leading = True
                self._enqueue_everything()
                group.create_task(self._remove_dead_registrations(), name="registrations")
                for number in range(self._options.workers):
                    group.create_task(self._worker(), name=f"worker {number}")
        finally:
            self._leading = False
            await self._to_pods.close()

    # --- events in, keys out ---------------------------------------------------------------------------------
    def _heard(self, event: str, kind: Kind, body: Body) -> None:
        concerned = self._store.concerned(kind, body)  # before it is kept: what it has left is concerned too
        changed = self._store.drop(kind, body) if event == "DELETED" else self._store.put(kind, body)
        if changed:
            first = kind is kinds.LLMSERVICE and event in ("ADDED", "LISTED") and not _is_edited(body)
            self._enqueue(kind, concerned, Urgency.BULK if first else Urgency.NOW)

    def _learnt(self, kind: Kind, body: Body) -> None:
        self._enqueue(kind, self._store.concerned(kind, body), Urgency.BULK)

    def _enqueue(self, kind: Kind, concerned: Iterable[Key | CacheKey], urgency: Urgency) -> None:
        if not self._leading:
            return  # whoever comes to lead begins with everything
        for key in concerned:
            self._queue.add(key, 0.0 if kind is kinds.LLMSERVICE else DEBOUNCE, urgency)

    def _enqueue_everything(self) -> None:
        """What a new leader begins with: edits that nobody has acted on go before the pile."""
        for body in self._services():
            urgency = Urgency.NOW if _is_edited(body) else Urgency.BULK
            self._enqueue(kinds.LLMSERVICE, self._store.concerned(kinds.LLMSERVICE, body), urgency)

    def _services(self) -> Iterator[Body]:
        for key in self._store.services():
            if (body := self._store.get(kinds.LLMSERVICE, *key)) is not None:
                yield body

    # --- keys to the controller ------------------------------------------------------------------------------
    async def _worker(self) -> None:
        while True:
            key = await self._queue.take()
            outcome = await _unbroken(self._handle(key), FINISH)
            for other in outcome.wake:
                self._queue.add(other)
            if outcome.next is Next.RETRY:
                metrics.RETRIES.inc()
                self._queue.retry(key)
            else:
                self._queue.done(key, outcome.after if outcome.next is Next.LATER else None)

    # --- what must never end ---------------------------------------------------------------------------------
    async def _shell_lives(self) -> None:
        await self._ended
        gone = await discovery.gone(self._client, self._store.kinds)
        raise Ended(f"{gone}: {SEEN_TO}" if gone else "the watches ended")

    def _shell_ended(self, error: BaseException | None) -> None:
        if error is not None:
            logger.error("the watches ended: %r", error)
        if not self._ended.done():
            self._ended.set_result(None)

    async def _kinds_stay(self) -> None:
        raise Ended(f"{await discovery.change(self._client, self._store.kinds)}: {SEEN_TO}")

    async def _remove_dead_registrations(self) -> None:
        while True:
            await scaling.remove_dead(self._client, datetime.now(UTC))
            await asyncio.sleep(scaling.LOOK)

    async def _check_schema(self) -> None:
        ours: dict[str, Any] = crd.generate()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        await schema.check(self._client, ours)

    # --- probes ----------------------------------------------------------------------------------------------
    async def unhealthy(self) -> str | None:
        if self._watching_since is None:
            return None
        if self._silence() > SILENCE:
            return f"a watch has been silent for {self._silence():.0f} s"
        if not await self._shell.responsive(within=RESPONSIVE):
            return f"the watches' event loop has not answered for {RESPONSIVE:g} s"
        if self._leading and self._queue.age() > STUCK:
            return f"an object has waited for a worker for {self._queue.age():.0f} s"
        return None

    def _silence(self) -> float:
        if self._watching_since is None:
            return 0.0
        expected = len(self._store.kinds) * max(1, len(self._options.namespaces))
        return self._connection.watches.quietest(expected, self._watching_since)

    async def unready(self) -> str | None:
        return None if self._store.ready else "not every kind has been listed yet"


def _is_edited(service: Body) -> bool:
    """Was a status written for an earlier generation than this one? Of a new object none was."""
    observed = (service.get("status") or {}).get("observedGeneration") or 0
    return bool(0 < observed != service["metadata"]["generation"])


async def _unbroken(work: Coroutine[Any, Any, T], grace: float) -> T:
    """``work``; when we are cancelled it gets so many seconds to end by itself."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=grace)
        task.cancel()
        raise


def _explain(error: BaseException | None) -> None:
    for leaf in _leaves(error):
        expected = isinstance(leaf, (Ended, Lost))
        logger.error("%s", leaf, exc_info=None if expected else leaf)


def _leaves(error: BaseException | None) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for below in error.exceptions:
            yield from _leaves(below)
    elif error is not None:
        yield error
