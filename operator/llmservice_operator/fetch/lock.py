"""One writer at a time on a volume that several pods may mount.

Network disks may have no ``flock`` (ENOSYS, EBADF), or one that holds on one node only. So the lock is a file, made
with O_EXCL, which says who holds it and which its holder rewrites every few seconds. Whoever waits compares what it
reads with what it read before, by its own clock: no two clocks are ever compared. A file that did not change for the
whole time is stale, and is taken over. Reading opens the file anew each time, because NFS promises fresh content
only then.

Should two copiers write in spite of it (a holder that was frozen for longer than that, say), nothing wrong becomes
part of a copy: every file's hash is checked before it gets its name.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

logger = logging.getLogger(__name__)

NAME = ".llmservice-copy.lock"
_BEATS = 6  # in the time after which the lock is stale
_WIDTH = 512  # bytes; a rewrite never leaves a longer line's tail


class Lock:
    """Held inside ``with``.

    Args:
        stale_after: seconds without a heartbeat.
        lost: called from another thread where someone else took the lock over.
    """

    def __init__(self, folder: Path, *, stale_after: float, lost: Callable[[], None]) -> None:
        self._path = folder / NAME
        self._stale_after = stale_after
        self._lost = lost
        self._id = uuid.uuid4().hex
        self._beat = 0
        self._guarded_since: float | None = None
        self._released = threading.Event()
        self._heart = threading.Thread(target=self._live, name="lock", daemon=True)

    def acquire(self, wait: Callable[[float], bool]) -> bool:
        """True once we hold it, False where ``wait`` says that it is no longer needed.

        Args:
            wait: sleeps for so many seconds, raises or returns whether to go on waiting.
        """
        seen: str | None = None
        since, told = time.monotonic(), False
        while not self._create():
            now = self._read()
            if now != seen:
                seen, since = now, time.monotonic()
            if now is None:  # released between the two
                continue
            if _dead_neighbour(now) or time.monotonic() - since > self._stale_after:
                self._take_away(now)
                continue
            if not told:
                logger.info("waiting for %s, which holds %s", _host(now), self._path)
                told = True
            if not wait(min(1.0, self._stale_after / _BEATS)):
                return False
        self._heart.start()
        return True

    def release(self) -> None:
        self._released.set()
        with contextlib.suppress(OSError):
            if self._mine():
                self._path.unlink()

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _create(self) -> bool:
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o664)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._content())
        return True

    def _take_away(self, stale: str) -> None:
        """Remove it, one of us at a time: whoever makes the guard looks once more, and nobody else removes a lock.

        A guard that was left behind (its maker died within a moment) is as stale as a lock after the same time.
        """
        guard = self._path.with_name(f"{NAME}.takeover")
        try:
            os.close(os.open(guard, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o664))
        except FileExistsError:
            time.sleep(min(0.05, self._stale_after / _BEATS))
            left_behind = self._guarded_since is not None and (
                time.monotonic() - self._guarded_since > self._stale_after
            )
            self._guarded_since = self._guarded_since or time.monotonic()
            if left_behind:
                self._guarded_since = None
                guard.unlink(missing_ok=True)
            return
        try:
            if self._read() == stale:
                self._path.unlink(missing_ok=True)
                logger.warning("%s of %s is stale: taken over", self._path, _host(stale))
        finally:
            self._guarded_since = None
            guard.unlink(missing_ok=True)

    def _live(self) -> None:
        while not self._released.wait(self._stale_after / _BEATS):
            with contextlib.suppress(OSError):  # a hiccup of the disk: the next beat counts
                if not self._mine() and not (self._read() is None and self._create()):
                    logger.error("%s was taken over by %s", self._path, _host(self._read()))
                    self._lost()
                    return
                self._beat += 1
                with os.fdopen(os.open(self._path, os.O_WRONLY), "wb") as file:  # never made anew here
                    file.write(self._content())

    def _mine(self) -> bool:
        return f'"{self._id}"' in (self._read() or "")

    def _read(self) -> str | None:
        try:
            return self._path.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def _content(self) -> bytes:
        holder = {
            "id": self._id,
            "host": socket.gethostname()[:64],
            "pid": os.getpid(),
            "pids": _pid_namespace(),
            "beat": self._beat,
        }
        return json.dumps(holder).encode().ljust(_WIDTH)


def _dead_neighbour(content: str) -> bool:
    """Its holder was a process beside us, in the same container, and is gone: no need to wait."""
    try:
        holder = json.loads(content)
        beside = holder["host"] == socket.gethostname()[:64] and holder["pids"] == _pid_namespace()
        if not beside or not holder["pids"]:
            return False
        os.kill(int(holder["pid"]), 0)
    except ProcessLookupError:
        return True
    except (ValueError, KeyError, TypeError, OSError):
        return False
    return False


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 (it names no path)
    except OSError:
        return ""


def _host(content: str | None) -> str:
    try:
        return str(json.loads(content or "")["host"])
    except (ValueError, KeyError, TypeError):
        return "someone"
