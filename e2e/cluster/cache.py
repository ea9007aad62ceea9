"""Where everything that a cluster needs is kept, outside the tree. Standard library only."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def root() -> Path:
    """``LLMSERVICE_CACHE``, else ``~/.cache/llmservice``."""
    named = os.environ.get("LLMSERVICE_CACHE")
    return Path(named).absolute() if named else Path.home() / ".cache" / "llmservice"


@contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold ``path`` alone among all processes; ``on_wait`` is called once if another holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_still(path, file.fileno()):  # else its holder removed it meanwhile
                yield
                return


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``final`` in one step, or leaves nothing when the filling fails."""
    final.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        unfinished.rename(final)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
