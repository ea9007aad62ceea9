"""The source of a model, as the command line gives it (the form is in :mod:`llmservice_operator.api.copies`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmservice_operator.fetch.errors import InvalidSource


@dataclass(frozen=True, slots=True)
class HubSource:
    repo: str
    revision: str
    files: tuple[str, ...]  # patterns; empty: what an engine needs
    endpoint: str | None


@dataclass(frozen=True, slots=True)
class BucketSource:
    bucket: str
    prefix: str  # without slashes around it; empty: the whole bucket
    endpoint: str | None

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True)
class ClaimSource:
    path: str  # below the volume's root; empty: the root


Source = HubSource | BucketSource | ClaimSource


def parse(text: str) -> tuple[Source, dict[str, Any]]:
    """The source, and the dict that it was written as.

    Raises:
        InvalidSource: it is no JSON, has none or several kinds, or a field cannot be used.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidSource(f"--source is not JSON: {error}") from None
    if (
        not isinstance(given, dict)
        or len(kinds := [kind for kind in ("hf", "s3", "pvc") if kind in given]) != 1
    ):
        raise InvalidSource("--source needs exactly one of hf, s3, pvc")
    fields = given[kinds[0]]
    if not isinstance(fields, dict):
        raise InvalidSource(f"--source: {kinds[0]} is not an object")
    if kinds[0] == "hf":
        return _hub(fields), given
    if kinds[0] == "s3":
        return _bucket(fields), given
    return ClaimSource(inside("pvc.path", str(fields.get("path") or ""))), given


def inside(field: str, path: str) -> str:
    """A path without empty parts.

    Raises:
        InvalidSource: it does not stay below where it starts.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not is_plain("/".join(parts) or "root"):
        raise InvalidSource(f"--source: {field} {path!r} leaves its folder")
    return "/".join(parts)


def is_plain(path: str) -> bool:
    """Whether a file's name, as an origin tells it, stays below the folder that it goes to."""
    return (
        not any(part in ("", ".", "..") for part in path.split("/")) and "\\" not in path and "\0" not in path
    )


def _hub(fields: Mapping[str, Any]) -> HubSource:
    repo = fields.get("repo")
    if not isinstance(repo, str) or not repo or repo.count("/") > 1 or inside("hf.repo", repo) != repo:
        raise InvalidSource(f"--source: hf.repo is {repo!r}; organisation/name is needed")
    files = fields.get("files") or []
    if not isinstance(files, list) or not all(isinstance(pattern, str) for pattern in files):
        raise InvalidSource("--source: hf.files is not a list of patterns")
    revision = str(fields.get("revision") or "main")
    inside("hf.revision", revision)
    return HubSource(repo, revision, tuple(files), _endpoint("hf", fields))


def _bucket(fields: Mapping[str, Any]) -> BucketSource:
    uri = fields.get("uri")
    if not isinstance(uri, str) or not uri.startswith("s3://"):
        raise InvalidSource(f"--source: s3.uri is {uri!r}; s3://bucket/prefix is needed")
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    if not bucket:
        raise InvalidSource(f"--source: s3.uri {uri!r} names no bucket")
    inside("s3.uri", prefix)
    return BucketSource(bucket, prefix.strip("/"), _endpoint("s3", fields))


def _endpoint(kind: str, fields: Mapping[str, Any]) -> str | None:
    endpoint = fields.get("endpoint")
    if endpoint in (None, ""):
        return None
    if not isinstance(endpoint, str) or not endpoint.startswith(("http://", "https://")):
        raise InvalidSource(f"--source: {kind}.endpoint is not an http or https URL")
    return endpoint.rstrip("/")
