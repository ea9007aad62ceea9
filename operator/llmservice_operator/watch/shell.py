"""kopf as the watch shell: it lists and watches, reconnects and re-authenticates; it decides nothing.

Only ``on.event`` handlers, so kopf writes no annotation, no finalizer, no status and no event. It runs on a thread
and an event loop of its own, because it takes every task of its loop for one of its own. When it ends for whatever
reason, so must the process: a watch that died for good is not revived in place.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import kopf

from llmservice_operator.live.connection import Connection
from llmservice_operator.live.kinds import Kind

WATCH_SECONDS = 240  # after which the API server ends a watch, so that each proves that it lives
SILENCE = 2.0 * WATCH_SECONDS  # seconds without an answer after which a watch counts as dead
PAGE = 500

Heard = Callable[[str, Kind, dict[str, Any]], None]  # event type, kind, object

logger = logging.getLogger(__name__)


class Shell:
    """The thread that kopf runs on, watching the kinds ``in_use``: each must be served, for kopf ends where one is not.

    ``heard`` is called on the event loop of the caller for each event; ``ended`` once, at the end.
    """

    def __init__(
        self,
        connection: Connection,
        in_use: tuple[Kind, ...],
        namespaces: Sequence[str],
        heard: Heard,
        ended: Callable[[BaseException | None], None],
    ) -> None:
        self._connection = connection
        self._kinds = in_use
        self._namespaces = tuple(namespaces)
        self._heard = heard
        self._ended = ended
        self._outer = asyncio.get_running_loop()
        self._inner: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)

    def start(self) -> None:
        _quieten()
        self._thread.start()

    async def responsive(self, within: float) -> bool:
        """Does kopf's event loop take a task within so many seconds?"""
        if self._inner is None or not self._inner.is_running():
            return self._thread.is_alive()
        answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._inner))
        done, _ = await asyncio.wait({answer}, timeout=within)
        return bool(done)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._watch())
        except BaseException as caught:  # noqa: BLE001 (a thread has nobody to raise to: the process ends with it)
            error = caught
        self._outer.call_soon_threadsafe(self._ended, error)

    async def _watch(self) -> None:
        """Run kopf's root tasks; none of them may ever end.

        ``kopf.operator()`` would wait for the others first, and that can last for ever: a watch that was told to
        stop re-authenticates instead. So the first end counts, and is told before anything is cleaned up.
        """
        self._inner = asyncio.get_running_loop()
        where: dict[str, Any] = (
            {"namespaces": self._namespaces} if self._namespaces else {"clusterwide": True}
        )
        tasks = await kopf.spawn_tasks(
            registry=self._registry(), settings=settings(self._kinds), standalone=True, **where
        )
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = next(iter(done))
        error = None if first.cancelled() else first.exception()
        self._outer.call_soon_threadsafe(self._ended, error)

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        async def login(**_: Any) -> kopf.AiohttpSession:
            return kopf.AiohttpSession(
                server=self._connection.server, aiohttp_session=self._connection.session()
            )

        kopf.on.login(registry=registry)(login)
        for kind in self._kinds:
            kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=kind.plural)(
                self._handler(kind)
            )
        return registry

    def _handler(self, kind: Kind) -> Callable[..., Any]:
        async def event(event: dict[str, Any], **_: Any) -> None:
            self._outer.call_soon_threadsafe(self._heard, event["type"] or "LISTED", kind, event["object"])

        return event


def settings(in_use: Sequence[Kind]) -> kopf.OperatorSettings:
    """kopf with everything off that writes, scans or posts."""
    given = kopf.OperatorSettings()
    given.scanning.disabled = True
    given.peering.standalone = True
    given.posting.enabled = False
    given.watching.server_timeout = WATCH_SECONDS
    given.watching.chunk_size = PAGE
    given.queueing.idle_timeout = 0.1  # nothing is kept between two events of an object
    given.process.ultimate_exiting_timeout = None
    for kind in in_use:
        if kind.selector:
            given.watching.label_selectors[kind.group, kind.version, kind.plural] = kind.selector
    return given


def _quieten() -> None:
    kopf_log = logging.getLogger("kopf")
    kopf_log.setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.running").addFilter(
        lambda record: "OS signals are ignored" not in record.getMessage()
    )
