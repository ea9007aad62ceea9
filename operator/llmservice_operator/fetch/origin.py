"""What the hub and an S3 store have in common: files with sizes and hashes, streamed from any offset."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from llmservice_operator.fetch.errors import HubUnreachable, Interrupted

logger = logging.getLogger(__name__)

LONGEST_DELAY = 30.0  # seconds between two tries
Answer = TypeVar("Answer")


class Hasher(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Digest:
    kind: Literal["sha256", "git-sha1", "md5"]
    hex: str

    def hasher(self, size: int) -> Hasher:
        """For content of ``size`` bytes: git hashes the size, too."""
        if self.kind == "git-sha1":
            return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        return hashlib.new(self.kind, usedforsecurity=False)


@dataclass(frozen=True, slots=True)
class File:
    path: str  # relative to the model's folder
    size: int  # bytes
    digest: Digest | None
    tag: str  # the origin's name for this content


@dataclass(frozen=True, slots=True)
class Listing:
    """One revision of a model."""

    revision: str
    files: tuple[File, ...]  # those that are copied
    others: tuple[File, ...] = ()  # those that are not
    parameters: int | None = None
    dtype: str | None = None  # as safetensors writes it: BF16

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


class Origin(Protocol):
    """Answers, or raises :class:`errors.FetchError` where a retry is of no use."""

    name: str  # of the model, for people
    host: str

    def listing(self, revision: str | None) -> Listing: ...

    def read(self, listing: Listing, file: File) -> bytes:
        """A small file, whole."""

    def stream(
        self, listing: Listing, file: File, offset: int
    ) -> AbstractContextManager[tuple[int, Iterator[bytes]]]:
        """The content from ``offset`` on: where it really starts (0 where the server knows no ranges), and chunks.

        Raises:
            Transient: worth another try from where it stopped.
        """

    def certain(self, file: File) -> bool:
        """Asked where the content does not match: whether the file's digest is really one of its content."""


class Transient(Exception):
    """A failure that may pass."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds, as the server asks


@dataclass(frozen=True, slots=True)
class Patience:
    """How often something is tried that makes no progress, and how long between two tries."""

    attempts: int
    first_delay: float  # seconds; doubles each time
    stop: threading.Event

    def check(self) -> None:
        """Raise :class:`Interrupted` where we are to stop."""
        if self.stop.is_set():
            raise Interrupted(
                "told to stop", hint="what was fetched is kept; the next run goes on from there"
            )

    def keep_trying(self, host: str, call: Callable[[], Answer]) -> Answer:
        """What ``call`` answers in the end; :class:`HubUnreachable` where it failed each time."""
        tries = Tries(self, host)
        while True:
            try:
                return call()
            except Transient as error:
                tries.failed(error)


class Tries:
    """The failures in a row of one download."""

    def __init__(self, patience: Patience, host: str) -> None:
        self._patience = patience
        self._host = host
        self._failures = 0

    def progressed(self) -> None:
        self._failures = 0

    def failed(self, error: Transient) -> None:
        """Wait before the next try.

        Raises:
            HubUnreachable: there is no next try.
            Interrupted: told to stop meanwhile.
        """
        self._failures += 1
        if self._failures >= self._patience.attempts:
            raise HubUnreachable(
                f"{self._host} failed {self._failures} times in a row, last with: {error}",
                hint=_hint(str(error)),
            )
        delay = min(self._patience.first_delay * 2 ** (self._failures - 1), LONGEST_DELAY)
        if error.retry_after is not None:
            delay = max(delay, min(error.retry_after, 2 * LONGEST_DELAY))
        logger.warning("%s: %s; trying again in %.1f s", self._host, error, delay)
        self._patience.stop.wait(delay)
        self._patience.check()


def _hint(error: str) -> str:
    if "CERTIFICATE" in error.upper():
        return "the certificate is not trusted: mount the authority's and name it in SSL_CERT_FILE of cache.job.env"
    return (
        "check egress policies, DNS and proxies (HTTPS_PROXY in spec.cache.job.env), or name a mirror in the "
        "source's endpoint"
    )
