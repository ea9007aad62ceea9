"""Why a model cannot be looked up or copied. The class's name is the report's ``code``.

FetchError
├── InvalidSource          what the command line says cannot be meant (exit code 2)
├── the origin refuses
│   ├── ModelNotFound      no such repository, prefix or folder, or it is no model
│   ├── RevisionNotFound   no such branch, tag or commit; or the objects changed since they were resolved
│   ├── ModelGated         the licence is not accepted yet
│   ├── InvalidToken       a token was sent and refused
│   ├── TokenMissing       none was sent: the repository is private or does not exist
│   ├── BucketNotFound
│   └── AccessDenied
├── HubUnreachable         no answer, after retries
├── the content is wrong
│   ├── NoWeights
│   ├── WeightsIncomplete  a shard is missing or cut
│   └── ChecksumMismatch   twice
├── the volume refuses
│   ├── VolumeTooSmall
│   ├── PermissionDenied
│   ├── ReadOnlyVolume
│   └── VolumeFailed       any other fault of the file system
└── Interrupted            told to stop, or the lock was lost; a later run goes on from here
"""

from __future__ import annotations

from collections.abc import Mapping


class FetchError(Exception):
    """A refusal that carries figures and the next move."""

    def __init__(self, message: str, *, hint: str = "", figures: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.figures = dict(figures or {})

    @property
    def code(self) -> str:
        return type(self).__name__


class InvalidSource(FetchError):
    """The source, or a flag, cannot be used."""


class ModelNotFound(FetchError):
    """There is no such repository, prefix or folder, or it holds no model."""


class RevisionNotFound(FetchError):
    """The revision does not exist, or is not there any more."""


class ModelGated(FetchError):
    """The repository's conditions must be accepted first."""


class InvalidToken(FetchError):
    """The hub refused the token."""


class TokenMissing(FetchError):
    """The hub wants a token and there is none."""


class BucketNotFound(FetchError):
    """The store has no such bucket."""


class AccessDenied(FetchError):
    """The origin knows who asks and says no."""


class HubUnreachable(FetchError):
    """The origin did not answer, after retries."""


class NoWeights(FetchError):
    """There is no weight file among what would be copied."""


class WeightsIncomplete(FetchError):
    """A file that the model needs is missing or cut."""


class ChecksumMismatch(FetchError):
    """A file's content is not what the origin says it is, twice."""


class VolumeTooSmall(FetchError):
    """``requiredBytes`` are missing, ``availableBytes`` are free."""


class PermissionDenied(FetchError):
    """The volume may not be written, or read, by this user."""


class ReadOnlyVolume(FetchError):
    """The volume is mounted read-only."""


class VolumeFailed(FetchError):
    """The file system failed in another way."""


class Interrupted(FetchError):
    """Stopped before the end; partial files are kept."""
