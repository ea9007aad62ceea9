"""A repository of the Hugging Face hub, or of a mirror that speaks its protocol.

The look-ups are huggingface_hub's, and so is the HTTP session (proxies, certificates, offline mode). The bytes are
streamed here: ``hf_hub_download`` (1.33) writes to a name of its own each time and deletes it when it fails, so a
killed download starts again at zero; and its locks need ``flock``, which network disks may not have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn
from urllib.parse import urlsplit

# Read once, when huggingface_hub is imported.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")

import httpx
import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

from llmservice_operator.fetch import selection
from llmservice_operator.fetch.errors import (
    AccessDenied,
    HubUnreachable,
    InvalidSource,
    InvalidToken,
    ModelGated,
    ModelNotFound,
    RevisionNotFound,
    TokenMissing,
)
from llmservice_operator.fetch.origin import Digest, File, Listing, Patience, Transient
from llmservice_operator.fetch.source import HubSource, is_plain

WINDOW = 16 << 30  # bytes asked for at once of a very large file: the hub's CDN gives at most 50 GB whole
_LATER = (408, 425, 429, 500, 502, 503, 504)
_TOKEN_HINT = "name a Secret with a token that may read it in spec.model.tokenSecretRef"


class Hub:
    """The repository, as one who holds ``token`` sees it."""

    def __init__(self, source: HubSource, token: str | None, patience: Patience) -> None:
        self.name = source.repo
        self._source = source
        self._token = token
        self._patience = patience
        self._endpoint = (source.endpoint or constants.ENDPOINT).rstrip("/")
        self.host = urlsplit(self._endpoint).netloc.rpartition("@")[2]
        self._api: Any = huggingface_hub.HfApi(endpoint=self._endpoint, token=token or False)
        self._headers = build_hf_headers(token=token or False, library_name="llmservice-operator")

    def listing(self, revision: str | None) -> Listing:
        """Of a branch, tag or commit; one request."""
        info = self._patience.keep_trying(self.host, lambda: self._info(revision or self._source.revision))
        siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
        for path in siblings:
            if not is_plain(path):
                raise ModelNotFound(f"{self.name} holds a file named {path!r}: refused")
        chosen = selection.choose(siblings, self._source.files)
        tensors = info.safetensors
        counts = dict(tensors.parameters) if tensors else {}
        return Listing(
            revision=str(info.sha),
            files=tuple(self._file(siblings[path], str(info.sha)) for path in sorted(chosen)),
            others=tuple(_entry(siblings[path]) for path in sorted(siblings.keys() - chosen)),
            parameters=(tensors.total or sum(counts.values())) if tensors else None,
            dtype=max(counts, key=lambda name: counts[name]) if counts else None,
        )

    def read(self, listing: Listing, file: File) -> bytes:
        def whole() -> bytes:
            with self.stream(listing, file, 0) as (_, chunks):
                return b"".join(chunks)

        return self._patience.keep_trying(self.host, whole)

    @contextmanager
    def stream(self, listing: Listing, file: File, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        url = huggingface_hub.hf_hub_url(
            self._source.repo, file.path, revision=listing.revision, endpoint=self._endpoint
        )
        headers = dict(self._headers, **{"Accept-Encoding": "identity"})
        if offset or file.size > WINDOW:
            headers["Range"] = f"bytes={offset}-{min(offset + WINDOW, file.size) - 1}"
        with (
            self._refusals(),
            get_session().stream("GET", url, headers=headers, timeout=_timeout()) as response,
        ):
            if response.status_code >= 400:
                response.read()  # the refusal is told from its body, too
            hf_raise_for_status(response)
            yield (offset if response.status_code == 206 else 0), response.iter_bytes()

    def certain(self, file: File) -> bool:
        """The hub's hashes are those of the content."""
        return True

    def _info(self, revision: str) -> Any:
        with self._refusals():
            try:
                info = self._api.model_info(
                    self._source.repo, revision=revision, files_metadata=True, timeout=_timeout()
                )
            except HfHubHTTPError:
                raise
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if isinstance(error, HFValidationError):
                    raise InvalidSource(
                        f"{self._source.repo!r} is no name of a repository: {error}"
                    ) from None
                raise Transient(f"the answer is not the hub's: {type(error).__name__}") from None
            if not info.sha:
                raise Transient("the answer is not the hub's: it names no commit")
            return info

    def _file(self, sibling: Any, commit: str) -> File:
        """With size and hash; a mirror that leaves them out of its listing is asked for the file's headers."""
        file = _entry(sibling)
        if file.size >= 0 and file.digest:
            return file
        url = huggingface_hub.hf_hub_url(
            self._source.repo, file.path, revision=commit, endpoint=self._endpoint
        )

        def ask() -> Any:
            with self._refusals():
                return huggingface_hub.get_hf_file_metadata(
                    url, token=self._token or False, timeout=constants.HF_HUB_ETAG_TIMEOUT
                )

        found = self._patience.keep_trying(self.host, ask)
        if found.size is None or not found.etag:
            raise HubUnreachable(f"{self.host} tells neither size nor ETag of {file.path}")
        digest = {64: Digest("sha256", found.etag), 40: Digest("git-sha1", found.etag)}.get(len(found.etag))
        return replace(file, size=found.size, digest=digest, tag=found.etag)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """What the libraries raise, as ours."""
        try:
            yield
        except OfflineModeIsEnabled:
            raise HubUnreachable(
                f"{self.host} was not asked: HF_HUB_OFFLINE is set, and there is no complete copy of {self.name}",
                hint="unset HF_HUB_OFFLINE in spec.cache.job.env, or fill the volume beforehand",
            ) from None
        except HfHubHTTPError as error:
            self._refuse(error.response)
        except httpx.InvalidURL as error:
            raise InvalidSource(f"the hub's endpoint cannot be used: {error}") from None
        except (
            httpx.TransportError,
            httpx.StreamError,
            httpx.DecodingError,
            httpx.TooManyRedirects,
        ) as error:
            raise Transient(f"{type(error).__name__}: {error}") from None

    def _refuse(self, response: httpx.Response) -> NoReturn:
        status, code = response.status_code, response.headers.get("X-Error-Code", "")
        repo, revision = self._source.repo, self._source.revision
        if status in _LATER:
            after = response.headers.get("Retry-After", "")
            raise Transient(f"HTTP {status}", float(after) if after.isdigit() else None)
        if code == "GatedRepo":
            page = f"{self._endpoint}/{repo}"
            raise ModelGated(
                f"{repo} is gated, and "
                + ("this token may not read it" if self._token else "there is no token"),
                hint=f"accept its conditions at {page} and {_TOKEN_HINT}",
            )
        if code == "RevisionNotFound":
            raise RevisionNotFound(
                f"{repo} has no revision {revision}", hint="give a branch, tag or commit that it has"
            )
        if status == 401 and self._token:
            raise InvalidToken(
                f"{self.host} refused the token (HTTP 401)",
                hint="it may have expired: put a valid one into the Secret of spec.model.tokenSecretRef",
            )
        if status == 401:
            raise TokenMissing(
                f"{repo} is private or does not exist, and there is no token",
                hint=f"check its name, or {_TOKEN_HINT}",
            )
        if status == 403:
            raise AccessDenied(
                f"{self.host} does not let this token read {repo} (HTTP 403)", hint=_TOKEN_HINT
            )
        if status == 404 and code == "EntryNotFound":
            raise RevisionNotFound(
                f"{repo} has no file {response.url.path.rpartition('/')[2]} at this revision"
            )
        if status == 404:
            known = "or is private and this token may not read it" if self._token else "or is private"
            raise ModelNotFound(
                f"{repo} does not exist on {self.host}, {known}",
                hint=f"check spec.model.source.hf.repo, or {_TOKEN_HINT}",
            )
        raise HubUnreachable(f"{self.host} answered HTTP {status} for {repo}")


def _entry(sibling: Any) -> File:
    """As the listing has it; size -1 where it is not said."""
    if lfs := sibling.lfs:
        return File(sibling.rfilename, int(lfs.size), Digest("sha256", lfs.sha256), lfs.sha256)
    blob = sibling.blob_id
    size = -1 if sibling.size is None else int(sibling.size)
    return File(sibling.rfilename, size, Digest("git-sha1", blob) if blob else None, blob or "")


def _timeout() -> httpx.Timeout:
    return httpx.Timeout(max(float(constants.HF_HUB_DOWNLOAD_TIMEOUT), 1.0))
