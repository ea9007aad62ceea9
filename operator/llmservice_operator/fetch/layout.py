"""Where a copy's files lie in the volume.

    hub/models--org--name/                       hf, as huggingface_hub's cache with the volume as HF_HOME
    ├── .complete-COMMIT.json                    the marker: this copy is whole
    ├── blobs/HASH, HASH.incomplete              shared by the revisions
    ├── refs/main                                a branch's commit, once its copy is whole
    └── snapshots/COMMIT/FILE -> ../../blobs/HASH
    s3/BUCKET/PREFIX/                            s3
    ├── .complete-REVISION.json
    └── REVISION/FILE, FILE.incomplete

Where the file system knows no symbolic links a snapshot's files are real ones, as huggingface_hub does it, too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmservice_operator.api import copies
from llmservice_operator.fetch import volume
from llmservice_operator.fetch.origin import File
from llmservice_operator.fetch.source import BucketSource, HubSource

logger = logging.getLogger(__name__)

PARTIAL = ".incomplete"


@dataclass(frozen=True, slots=True)
class Whole:
    """A copy that is complete."""

    bytes: int
    files: int
    weight_bytes: int


class Layout:
    """Of one revision of one source in the volume at ``root``."""

    def __init__(
        self, source: HubSource | BucketSource, given: Mapping[str, Any], root: Path, revision: str
    ) -> None:
        self.folder = root / copies.folder(given, revision)
        self._revision = revision
        self._hub = isinstance(source, HubSource)
        self._home = self.folder.parent.parent if self._hub else self.folder.parent
        self._patterns = sorted(source.files) if isinstance(source, HubSource) else []
        self._branch = source.revision if isinstance(source, HubSource) else revision

    @property
    def marker(self) -> Path:
        """Each choice of files has its own: a whole copy of some is none of all."""
        choice = hashlib.sha256("\n".join(self._patterns).encode()).hexdigest()[:8]
        return self._home / f".complete-{self._revision}{f'-{choice}' if self._patterns else ''}.json"

    def whole(self) -> Whole | None:
        """What the marker says, where it is readable and every file still has its size. No file is opened."""
        try:
            told = json.loads(self.marker.read_text("utf-8"))
            sizes = {str(path): int(size) for path, size in told["files"].items()}
            found = Whole(sum(sizes.values()), len(sizes), int(told["weightBytes"]))
            if told["revision"] != self._revision or not sizes:
                return None
            for path, size in sizes.items():
                if (self.folder / path).stat().st_size != size:
                    return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return found

    def mark(self, files: Collection[File], weight_bytes: int) -> None:
        """The copy is whole: written last."""
        told = {
            "revision": self._revision,
            "patterns": self._patterns,
            "weightBytes": weight_bytes,
            "files": {file.path: file.size for file in files},
        }
        volume.write_whole(self.marker, json.dumps(told, indent=1) + "\n")
        if self._hub and self._branch != self._revision:
            ref = self._home / "refs" / self._branch
            volume.make_folder(ref.parent)
            volume.write_whole(ref, self._revision)

    def prepare(self, files: Collection[File]) -> None:
        """The folders that the files go to."""
        for folder in {(self.folder / file.path).parent for file in files}:
            volume.make_folder(folder)
        if self._hub:
            volume.make_folder(self._home / "blobs")

    def final(self, file: File) -> Path:
        """Where the content goes; two files of one content share it."""
        return self._home / "blobs" / _safe(file.tag) if self._hub else self.folder / file.path

    def partial(self, file: File) -> Path:
        final = self.final(file)
        return final.with_name(final.name + PARTIAL)

    def present(self, file: File) -> Path | None:
        """The content where something of the right size lies already: whose, and whether right, nobody knows."""
        for path in (self.final(file), self.folder / file.path):
            if path.is_file() and path.stat().st_size == file.size:
                return path
        return None

    def settle(self, file: File) -> None:
        """A partial file that is whole and right gets its name; one that had it before is replaced by it."""
        self.partial(file).replace(self.final(file))
        volume.sync_folder(self.final(file).parent)

    def link(self, files: Sequence[File]) -> None:
        """The snapshot's entries, once all content has its name."""
        left = Counter(self.final(file) for file in files)
        for file in files:
            entry, blob = self.folder / file.path, self.final(file)
            left[blob] -= 1
            if entry == blob:
                continue
            if blob.exists():
                if not (entry.exists() and entry.samefile(blob)):
                    self._enter(entry, blob, last=not left[blob])
            elif not self._has(file):  # an entry of the same content has it, where there are no links
                other = next(
                    self.folder / other.path for other in files if other.tag == file.tag and self._has(other)
                )
                self._enter(entry, other, last=False)

    def _has(self, file: File) -> bool:
        path = self.folder / file.path
        return path.is_file() and path.stat().st_size == file.size

    def _enter(self, entry: Path, content: Path, *, last: bool) -> None:
        """``entry`` becomes a link to ``content``, or takes it where there are no links and no one else needs it."""
        beside = entry.with_name(f".{entry.name}.{os.getpid()}.new")
        beside.unlink(missing_ok=True)
        try:
            beside.symlink_to(os.path.relpath(content, entry.parent))
        except OSError as error:
            logger.info("%s cannot be a symbolic link: %s", entry, error.strerror)
            if last:
                content.replace(beside)
            else:
                shutil.copyfile(content, beside)
        beside.replace(entry)


def _safe(tag: str) -> str:
    if not tag or len(tag) > 100 or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", tag):
        return hashlib.sha256(tag.encode()).hexdigest()
    return tag
