"""Image archives written by hand: one layer, in the OCI layout that every runtime imports.

The same files give the same bytes, so an image's digest says what is in it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.cluster import cache

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, slots=True)
class Image:
    """An archive and the name that it has once imported."""

    name: str
    archive: Path


@dataclass(frozen=True, slots=True)
class Content:
    """What an image holds, and what it runs by default."""

    files: Mapping[str, bytes] = field(default_factory=dict)  # all executable: tiny programs and plain text
    folders: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)  # name → target
    entrypoint: tuple[str, ...] = ()
    environment: tuple[str, ...] = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)


def ensure(name: str, content: Content) -> Image:
    """The image's archive in the cache, written if it is not there yet."""
    data = archive(name, content)
    digest = hashlib.sha256(data).hexdigest()[:12]
    path = cache.root() / "images" / f"{name.split('/')[-1].replace(':', '-')}-{digest}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{digest}.tmp")
        unfinished.write_bytes(data)
        unfinished.replace(path)
    return Image(name, path)


def archive(name: str, content: Content) -> bytes:
    layer = _tar(content.files, content.folders, content.links)
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(content.entrypoint), "Env": list(content.environment)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, config),
            "layers": [_descriptor(LAYER, layer)],
        }
    )
    named = {**_descriptor(MANIFEST, manifest), "annotations": {"io.containerd.image.name": name}}
    blobs = {f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (layer, config, manifest)}
    index = _json({"schemaVersion": 2, "manifests": [named]})
    return _tar({"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": index, **blobs})


def _tar(
    files: Mapping[str, bytes], folders: tuple[str, ...] = (), links: Mapping[str, str] | None = None
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in folders:
            tar.addfile(_entry(folder, tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755))
        for link, target in (links or {}).items():
            entry = _entry(link, tarfile.SYMTYPE, 0o777)
            entry.linkname = target
            tar.addfile(entry)
        for name, data in files.items():
            entry = _entry(name, tarfile.REGTYPE, 0o755)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry


def _descriptor(media_type: str, data: bytes) -> dict[str, Any]:
    return {
        "mediaType": media_type,
        "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "size": len(data),
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
