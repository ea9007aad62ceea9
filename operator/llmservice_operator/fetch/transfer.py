"""One file made whole: go on from what is there, check its hash, and fetch it once more where that is wrong."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from llmservice_operator.fetch.errors import ChecksumMismatch
from llmservice_operator.fetch.origin import File, Hasher, Listing, Origin, Patience, Transient, Tries

logger = logging.getLogger(__name__)

_BLOCK = 1 << 22  # bytes read at once for a hash


class Tally:
    """Bytes that are there, of those that are wanted. Many threads add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.done = 0
        self.total = 0

    def add(self, count: int) -> None:
        with self._lock:
            self.done += count


class Transfer:
    """Files of one listing, each to a path of its own."""

    def __init__(self, origin: Origin, listing: Listing, patience: Patience, tally: Tally) -> None:
        self._origin = origin
        self._listing = listing
        self._patience = patience
        self._tally = tally

    def right(self, file: File, path: Path) -> bool:
        """Whether ``path``, which has the file's size, has its content. Counts it."""
        if file.digest:
            hasher = file.digest.hasher(file.size)
            with path.open("rb") as content:
                self._hash(content, hasher)
            if hasher.hexdigest() != file.digest.hex and self._origin.certain(file):
                return False
        self._tally.add(file.size)
        return True

    def fetch(self, file: File, partial: Path) -> None:
        """``partial`` becomes the whole file, its content is that of the origin, and both survive a power failure.

        Raises:
            ChecksumMismatch: the content was wrong twice.
            FetchError: the origin refuses, or does not answer any more.
            OSError: the volume refuses.
        """
        got = ""
        for _ in range(2):
            got = self._whole(file, partial)
            if file.digest is None or got == file.digest.hex or not self._origin.certain(file):
                return
            logger.warning(
                "%s has the wrong content (%s %s): fetched again", file.path, file.digest.kind, got
            )
            partial.unlink()
            self._tally.add(-file.size)
        assert file.digest is not None
        raise ChecksumMismatch(
            f"{file.path} of {self._origin.name} arrived with {file.digest.kind} {got} twice, {self._origin.host} "
            f"says {file.digest.hex}",
            hint="a proxy or mirror on the way may answer with something else; compare with the origin itself",
        )

    def _whole(self, file: File, partial: Path) -> str:
        """The content's hash once all of it is there."""
        tries = Tries(self._patience, self._origin.host)
        with os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as out:
            if out.seek(0, os.SEEK_END) > file.size:
                out.truncate(0)
            hasher = self._hasher(file)
            out.seek(0)
            offset = self._hash(out, hasher)
            self._tally.add(offset)
            if offset:
                logger.info("%s: goes on at %d of %d bytes", file.path, offset, file.size)
            while offset < file.size:
                try:
                    with self._origin.stream(self._listing, file, offset) as (start, chunks):
                        if start != offset:
                            self._tally.add(start - offset)
                            out.seek(start)
                            out.truncate()
                            offset, hasher = start, self._hasher(file)
                        before = offset
                        for chunk in chunks:
                            self._patience.check()
                            piece = chunk[: file.size - offset]
                            out.write(piece)
                            hasher.update(piece)
                            offset += len(piece)
                            self._tally.add(len(piece))
                            tries.progressed()
                            if offset == file.size:
                                break
                        if offset == before:
                            raise Transient(f"{file.path} ended at {offset} of {file.size} bytes")
                except Transient as error:
                    tries.failed(error)
            out.flush()
            os.fsync(out.fileno())
        return hasher.hexdigest()

    def _hasher(self, file: File) -> Hasher:
        return file.digest.hasher(file.size) if file.digest else _NoHash()

    def _hash(self, content: BinaryIO, hasher: Hasher) -> int:
        """How many bytes there were."""
        read: Callable[[], bytes] = lambda: content.read(_BLOCK)  # noqa: E731
        size = 0
        for block in iter(read, b""):
            self._patience.check()
            hasher.update(block)
            size += len(block)
        return size


class _NoHash:
    """Of content whose hash the origin does not tell: the size alone counts."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str:
        return ""
