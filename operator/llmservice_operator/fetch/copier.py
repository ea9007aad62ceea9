"""One revision of a model, brought into a volume.

Complete already: no request at all. Else, under the lock: list, refuse what would not fit, fetch what is missing,
check the whole, and write the marker last. What is there is never opened for writing.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmservice_operator.api.copies import Facts
from llmservice_operator.fetch import facts, selection, shards, volume
from llmservice_operator.fetch.errors import Interrupted
from llmservice_operator.fetch.layout import Layout, Whole
from llmservice_operator.fetch.lock import Lock
from llmservice_operator.fetch.origin import File, Listing, Origin, Patience
from llmservice_operator.fetch.source import BucketSource, HubSource
from llmservice_operator.fetch.transfer import Tally, Transfer

logger = logging.getLogger(__name__)

# What is no branch or tag, and so never means something else later.
_FIXED = {HubSource: re.compile(r"[0-9a-f]{40}"), BucketSource: re.compile(r"[0-9a-f]{16}")}


@dataclass(frozen=True, slots=True)
class Order:
    """What to bring, and to where."""

    source: HubSource | BucketSource
    given: dict[str, Any]  # the source as the resource writes it
    revision: str | None  # None: what the source names now
    root: Path  # of the volume
    capacity: int | None  # bytes of the volume; None: what the file system says
    workers: int  # files at once
    stale_after: float  # seconds without a sign of life after which another copier counts as dead


class Copier:
    def __init__(self, order: Order, origin: Callable[[], Origin], patience: Patience, tally: Tally) -> None:
        self._order = order
        self._make_origin = origin
        self._patience = patience
        self._tally = tally
        self._lock_lost = threading.Event()
        self._made_by_another: Whole | None = None

    def run(self) -> Facts:
        """Raises:
        FetchError: there is no complete copy; what was fetched stays for the next run.
        """
        order, listing, origin = self._order, None, None
        revision = order.revision
        if revision is None or not _FIXED[type(order.source)].fullmatch(revision):
            origin = self._make_origin()
            listing = origin.listing(revision)
            revision = listing.revision
        layout = Layout(order.source, order.given, order.root, revision)
        if whole := layout.whole():
            logger.info("%s is complete: %d files, %d bytes", layout.folder, whole.files, whole.bytes)
            return _facts(revision, whole)
        with volume.refusals(order.root):
            volume.make_folder(order.root)
            lock = Lock(order.root, stale_after=order.stale_after, lost=self._lose)
            if not lock.acquire(lambda seconds: self._wait(seconds, layout)):
                assert self._made_by_another
                return _facts(revision, self._made_by_another)
            with lock:
                if not (whole := layout.whole()):
                    origin = origin or self._make_origin()
                    whole = self._bring(layout, origin, listing or origin.listing(revision))
        return _facts(revision, whole)

    def _bring(self, layout: Layout, origin: Origin, listing: Listing) -> Whole:
        facts.check_weights(
            origin.name, [file.path for file in listing.files], [file.path for file in listing.others]
        )
        volume.check_capacity(self._order.capacity, listing.bytes)
        layout.prepare(listing.files)
        self._tally.total = sum(file.size for file in _distinct(listing.files, layout))
        volume.check_space(layout.folder, self._missing(layout, listing))
        transfer = Transfer(origin, listing, self._patience, self._tally)
        try:
            self._all(layout, transfer, _distinct(listing.files, layout))
        except OSError as error:
            if volume.is_full(error):
                raise volume.too_small(layout.folder, self._missing(layout, listing)) from None
            raise
        layout.link(listing.files)
        if not self._order.given.get("hf", {}).get("files"):
            shards.check(layout.folder, origin.name)
        self._check_lock()
        weights = sum(file.size for file in listing.files if selection.is_weight(file.path))
        layout.mark(listing.files, weights)
        logger.info("%s is complete: %d files, %d bytes", layout.folder, len(listing.files), listing.bytes)
        return Whole(listing.bytes, len(listing.files), weights)

    def _all(self, layout: Layout, transfer: Transfer, files: Iterable[File]) -> None:
        """The largest first. The first failure stops the others; their partial files stay."""
        pool = ThreadPoolExecutor(self._order.workers, thread_name_prefix="copy")
        try:
            running = [
                pool.submit(self._one, layout, transfer, file)
                for file in sorted(files, key=lambda file: -file.size)
            ]
            wait(running, return_when=FIRST_EXCEPTION)
            failures = [
                error
                for future in running
                if future.done() and not future.cancelled() and (error := future.exception())
            ]
            if failures:
                self._check_lock()
                raise failures[0]
        except BaseException:
            self._patience.stop.set()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _one(self, layout: Layout, transfer: Transfer, file: File) -> None:
        self._patience.check()
        if (present := layout.present(file)) and transfer.right(file, present):
            return
        if present:
            logger.warning("%s is damaged: fetched again", present)
        transfer.fetch(file, layout.partial(file))
        layout.settle(file)

    def _missing(self, layout: Layout, listing: Listing) -> int:
        """Bytes that the volume must still take."""
        missing = 0
        for file in _distinct(listing.files, layout):
            if not layout.present(file):
                partial = layout.partial(file)
                there = partial.stat().st_size if partial.exists() else 0
                missing += max(0, file.size - there)
        return missing

    def _wait(self, seconds: float, layout: Layout) -> bool:
        self._patience.stop.wait(seconds)
        self._patience.check()
        self._made_by_another = layout.whole()
        return self._made_by_another is None

    def _lose(self) -> None:
        self._lock_lost.set()
        self._patience.stop.set()

    def _check_lock(self) -> None:
        if self._lock_lost.is_set():
            raise Interrupted(
                "another copier took this one for dead and goes on in its place",
                hint="the volume was out of reach for long; nothing is lost",
            )


def _distinct(files: Iterable[File], layout: Layout) -> list[File]:
    """Two names for one content are fetched once."""
    return list({layout.final(file): file for file in files}.values())


def _facts(revision: str, whole: Whole) -> Facts:
    return Facts(revision=revision, bytes=whole.bytes, files=whole.files, weight_bytes=whole.weight_bytes)
