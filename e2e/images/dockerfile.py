"""An image from a real Dockerfile of this project, cached by the hash of everything that goes into it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import cache, packages
from e2e.images import base, buildah
from e2e.images.oci import Image

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = 2  # archives of each image; older ones go


def ensure(name: str, dockerfile: str, inputs: Sequence[str]) -> Image:
    """The image's archive, built if anything of ``inputs`` has changed.

    Args:
        name: without registry and tag, e.g. ``llmservice-operator``.
        dockerfile: relative to the repository, as each of ``inputs`` (files and folders) is.
    """
    tag = digest([ROOT / path for path in (dockerfile, ".dockerignore", *inputs)], base.name())
    image = Image(f"llmservice.local/{name}:{tag}", _archives() / f"{name}-{tag}.tar")
    if image.archive.exists():
        image.archive.touch()  # used last, so kept
        return image
    packages.ensure(packages.IMAGES)
    with buildah.alone():
        if not image.archive.exists():
            started = time.monotonic()
            print(f"images: {image.name} from {dockerfile}", flush=True)
            buildah.build(ROOT / dockerfile, ROOT, base.ensure(), image.name)
            buildah.export(image.name, image.archive)
            image.archive.with_suffix(".json").write_text(json.dumps({"name": image.name}) + "\n")
            _drop_old(name)
            print(f"images: done in {time.monotonic() - started:.1f} s", flush=True)
    return image


def digest(paths: Sequence[Path], base_name: str) -> str:
    """Twelve hex digits over names and bytes; what Python compiled does not count."""
    total = hashlib.sha256(base_name.encode())
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                total.update(f"\n{file.relative_to(path.parent)}\n".encode() + file.read_bytes())
    return total.hexdigest()[:12]


def _archives() -> Path:
    return cache.root() / "images"


def _drop_old(name: str) -> None:
    """All but the archives used last, and what buildah keeps under other tags of this image."""
    archives = sorted(_archives().glob(f"{name}-????????????.tar"), key=lambda path: path.stat().st_mtime)
    for archive in archives[:-KEPT]:
        archive.with_suffix(".json").unlink(missing_ok=True)
        archive.unlink()
    kept = [archive.stem.removeprefix(f"{name}-") for archive in archives[-KEPT:]]
    own = [known for known in buildah.names() if f"/{name}:" in known]
    buildah.forget(*(known for known in own if known.rpartition(":")[2] not in kept))
