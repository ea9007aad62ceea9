"""One run of ``llmservice-operator fetch``: what is asked, done, and reported."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llmservice_operator.api import copies
from llmservice_operator.fetch import credentials, facts, progress, report, source, volume
from llmservice_operator.fetch.copier import Copier, Order
from llmservice_operator.fetch.errors import FetchError, Interrupted, InvalidSource
from llmservice_operator.fetch.origin import Origin, Patience
from llmservice_operator.fetch.transfer import Tally

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    action: Literal["resolve", "copy"]
    source: str  # JSON, see llmservice_operator.api.copies
    folder: Path  # where the volume is mounted
    report: Path
    revision: str | None = None
    capacity: int | None = None  # bytes
    token_folder: Path = Path(copies.TOKEN_FOLDER)
    credentials_folder: Path = Path(copies.CREDENTIALS_FOLDER)
    progress_port: int = copies.PROGRESS_PORT  # 0: none
    workers: int = 4
    stale_after: float = 30.0  # seconds
    attempts: int = 8  # in a row, without progress
    retry_delay: float = 1.0  # seconds before the second attempt


class _Stop(BaseException):
    """SIGTERM, in the main thread. No library's ``except Exception`` may swallow it."""


def run(options: Options) -> int:
    """The exit code: 0, 1 for a failure, 2 for a command line that cannot be meant. Always reports."""
    redaction = report.Redaction()
    for handler in logging.getLogger().handlers:
        handler.addFilter(redaction)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each address, signatures and all
    try:
        found = _act(options, redaction)
    except BaseException as caught:
        error = caught
        if isinstance(caught, _Stop | KeyboardInterrupt):
            error = Interrupted(
                "told to stop", hint="what was fetched is kept; the next run goes on from there"
            )
        elif not isinstance(caught, FetchError):
            logger.error("unexpected", exc_info=caught)
        told = report.failure(error, redaction)
        report.write(options.report, report.encode(told))
        logger.error("%s: %s%s", told["code"], told["message"], f" ({told['hint']})" if told["hint"] else "")
        return report.exit_code(error)
    report.write(options.report, found.message())
    return 0


def main(options: Options) -> int:
    """:func:`run` as a process of its own, which SIGTERM ends at once."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end is near; a second one would cut the report
        raise _Stop

    signal.signal(signal.SIGTERM, stop)
    os.umask(0o002)  # the engine runs as another user; a group that both have may write, too
    code = run(options)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # threads that wait for the network would delay the end


def _act(options: Options, redaction: report.Redaction) -> copies.Facts:
    wanted, given = source.parse(options.source)
    if isinstance(wanted, source.ClaimSource):
        if options.action == "copy":
            raise InvalidSource("a pvc source is not copied: its claim is used as it is")
        return facts.of_claim(wanted, options.folder)
    if options.revision:
        source.inside("--revision", options.revision)
    patience = Patience(options.attempts, options.retry_delay, threading.Event())

    def origin() -> Origin:
        return _origin(wanted, options, patience, redaction)

    if options.action == "resolve":
        asked = origin()
        found = facts.of_origin(asked, asked.listing(options.revision))
        volume.check_capacity(options.capacity, found.bytes)
        return found
    tally = Tally()
    order = Order(
        source=wanted,
        given=given,
        revision=options.revision,
        root=options.folder,
        capacity=options.capacity,
        workers=options.workers,
        stale_after=options.stale_after,
    )
    server = progress.serve(tally, options.progress_port) if options.progress_port else None
    try:
        return Copier(order, origin, patience, tally).run()
    finally:
        patience.stop.set()
        if server:
            server.shutdown()
            server.server_close()


def _origin(
    wanted: source.HubSource | source.BucketSource,
    options: Options,
    patience: Patience,
    redaction: report.Redaction,
) -> Origin:
    """Imported when it is needed: a copy that is complete asks nobody."""
    if isinstance(wanted, source.HubSource):
        token = credentials.token(options.token_folder)
        redaction.hide(token)
        from llmservice_operator.fetch.hub import Hub

        return Hub(wanted, token, patience)
    keys = credentials.keys(options.credentials_folder)
    redaction.hide(keys.secret, keys.session, os.environ.get("AWS_SECRET_ACCESS_KEY"))
    redaction.hide(os.environ.get("AWS_SESSION_TOKEN"))
    from llmservice_operator.fetch.bucket import Bucket

    return Bucket(wanted, keys, patience)
