"""The hub's token and the store's keys: files of mounted Secrets, read anew in each run, else the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from llmservice_operator.fetch.errors import AccessDenied, InvalidToken, PermissionDenied

_TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")

# Spellings are compared without case, underscores, dashes and dots.
_SPELLINGS = {
    "awsaccesskeyid": "key",
    "accesskeyid": "key",
    "accesskey": "key",
    "awssecretaccesskey": "secret",
    "secretaccesskey": "secret",
    "secretkey": "secret",
    "awssessiontoken": "session",
    "sessiontoken": "session",
    "awsregion": "region",
    "awsdefaultregion": "region",
    "region": "region",
}


@dataclass(frozen=True, slots=True)
class Keys:
    """Of an S3 store. Without ``key`` boto3's own chain counts."""

    key: str | None = None
    secret: str | None = field(default=None, repr=False)
    session: str | None = field(default=None, repr=False)
    region: str | None = None


def token(folder: Path) -> str | None:
    """The hub's token, None where there is none.

    Raises:
        InvalidToken: it cannot be one. Its text is never told.
        PermissionDenied: the file may not be read.
    """
    found = _read(folder / "token")
    for variable in _TOKEN_VARIABLES:
        found = found or os.environ.get(variable, "").strip()
    if not found:
        return None
    if not found.isascii() or not found.isprintable() or " " in found:
        raise InvalidToken(
            f"the token has {len(found)} characters, and among them some that no token holds",
            hint="put the bare token into the Secret that spec.model.tokenSecretRef names, without quotes or spaces",
        )
    return found


def keys(folder: Path) -> Keys:
    """The store's keys from the files of a mounted Secret.

    Raises:
        AccessDenied: one half of the pair is missing.
    """
    if not folder.is_dir():
        return Keys()
    names = sorted(
        path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("..")
    )
    found: dict[str, str] = {}
    for name in names:
        meaning = _SPELLINGS.get("".join(c for c in name.lower() if c not in "_-."))
        if meaning and (value := _read(folder / name)):
            found.setdefault(meaning, value)
    if ("key" in found) != ("secret" in found):
        raise AccessDenied(
            f"the credentials' Secret has only one half of the pair; its keys are {', '.join(names)}",
            hint="it needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    return Keys(**found)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise PermissionDenied(
            f"{path} may not be read by user {os.geteuid()}: {error.strerror}",
            hint="set fsGroup in the job's security context",
        ) from None
