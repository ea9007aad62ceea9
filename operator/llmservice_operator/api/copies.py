"""A model's copy: what the job that looks it up reports, and where in a volume the files lie.

The job writes :class:`Facts` as its termination message; the operator reads them there and nowhere else. The source
is a plain dict as the resource writes it: ``{"hf": {"repo", "revision", "files", "endpoint"}}``, ``{"s3": {"uri",
"endpoint"}}`` or ``{"pvc": {"path"}}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

LONGEST_MESSAGE = 4000  # bytes; Kubernetes keeps 4,096 of a termination message
PROGRESS_PORT = 8080  # of the copying container: GET /progress → {"bytesDone", "bytesTotal"}
TOKEN_FOLDER = "/var/run/secrets/llmservice/token"
CREDENTIALS_FOLDER = "/var/run/secrets/llmservice/credentials"


@dataclass(frozen=True, slots=True)
class Facts:
    """A model as its source has it. ``config`` holds the fields of config.json that say its shape."""

    revision: str  # hf: the commit; s3: a hash of the listing; pvc: empty
    bytes: int  # of everything that is copied
    files: int
    weight_bytes: int
    parameters: int | None = None
    dtype: str | None = None
    context_length: int | None = None  # tokens
    config: Mapping[str, Any] = field(default_factory=dict)

    def message(self) -> str:
        """As the termination message carries it. The shape is left out where it would not fit."""
        told = {key: value for key, value in asdict(self).items() if value not in (None, {}, "")}
        text = json.dumps(told, separators=(",", ":"))
        if len(text.encode()) <= LONGEST_MESSAGE:
            return text
        return json.dumps({**told, "config": {}}, separators=(",", ":"))


def facts(message: str | Mapping[str, Any]) -> Facts | None:
    """Read :meth:`Facts.message` (or what it was parsed to); None where it is something else."""
    try:
        found = json.loads(message) if isinstance(message, str) else message
    except ValueError:
        return None
    if not isinstance(found, Mapping) or not isinstance(found.get("weight_bytes"), int):
        return None
    known: dict[str, Any] = {key: found[key] for key in Facts.__dataclass_fields__ if key in found}
    return Facts(**{"revision": "", "bytes": 0, "files": 0, **known})


def folder(source: Mapping[str, Any], revision: str) -> str:
    """Where the model's files lie below the volume's root, for a copy of ``revision``.

    ``hf`` follows huggingface_hub's cache with the volume as ``HF_HOME``, so that a claim which vLLM filled is used
    as it is.
    """
    if "hf" in source:
        repo = str(source["hf"]["repo"]).replace("/", "--")
        return f"hub/models--{repo}/snapshots/{revision}"
    if "s3" in source:
        bucket, _, prefix = str(source["s3"]["uri"]).removeprefix("s3://").partition("/")
        return "/".join(part for part in ("s3", bucket, prefix.strip("/"), revision) if part)
    return str((source.get("pvc") or {}).get("path", "")).strip("/")
