"""The volume that a copy goes to: what it can hold, what it refuses, and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmservice_operator.fetch.errors import (
    FetchError,
    PermissionDenied,
    ReadOnlyVolume,
    VolumeFailed,
    VolumeTooSmall,
)

_GIB = 1 << 30
_SPARE = 0.05  # of the whole volume: what a file system keeps for itself


@contextmanager
def refusals(folder: Path) -> Iterator[None]:
    """What the file system refuses, as ours."""
    try:
        yield
    except FetchError:
        raise
    except OSError as error:
        where = error.filename or folder
        if error.errno in (errno.EACCES, errno.EPERM):
            raise PermissionDenied(
                f"{where} may not be written by user {os.geteuid()} (groups {os.getgroups()}): {error.strerror}",
                hint="set fsGroup in the pod's security context; on NFS, look at root_squash and the export's owner",
            ) from None
        if error.errno == errno.EROFS:
            raise ReadOnlyVolume(
                f"{where} is on a volume that is mounted read-only",
                hint="use a claim that can be written, or source.pvc for weights that are already there",
            ) from None
        if is_full(error):
            raise too_small(folder, 0) from None
        raise VolumeFailed(f"{where}: {error.strerror or error}", hint="look at the claim's events") from None


def check_space(folder: Path, missing: int) -> None:
    """Raise :class:`VolumeTooSmall` where less is free than the bytes that are still missing."""
    free = available(folder)
    if free is not None and free < missing:
        raise too_small(folder, missing)


def check_capacity(capacity: int | None, needed: int) -> None:
    """Raise :class:`VolumeTooSmall` where ``capacity`` bytes could not hold the model even if all were free."""
    if capacity is not None and needed > capacity:
        raise VolumeTooSmall(
            f"the model has {needed:,} bytes, the volume {capacity:,}",
            hint=f"ask for at least {_size(needed)} in spec.cache.size",
            figures={"required_bytes": needed, "available_bytes": capacity},
        )


def available(folder: Path) -> int | None:
    """Bytes that may still be written; None where the file system does not say."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize if found.f_blocks else None  # some network disks tell zeros


def make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


def write_whole(path: Path, text: str) -> None:
    """The file has the old content or the new one, whenever the power fails."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """So that a rename survives a power failure. Network disks may not know how, and need not."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_full(error: BaseException) -> bool:
    """Of the disk, or of a quota on it."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def too_small(folder: Path, missing: int) -> VolumeTooSmall:
    """With the size to ask for: what is used now, and the bytes that are missing."""
    free = available(folder) or 0
    try:
        found = os.statvfs(folder)
        size = found.f_blocks * found.f_frsize
    except OSError:
        size = 0
    wanted = _size(max(size - free, 0) + missing)
    return VolumeTooSmall(
        f"{missing:,} bytes must still be written, {free:,} are free",
        hint=f"ask for at least {wanted} in spec.cache.size, or remove old copies from the volume",
        figures={"required_bytes": missing, "available_bytes": free},
    )


def _size(needed: int) -> str:
    """A claim's size for that many bytes, in Kubernetes' notation."""
    return f"{-(-int(needed * (1 + _SPARE)) // _GIB)}Gi"
