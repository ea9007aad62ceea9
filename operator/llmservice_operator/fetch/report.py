"""What the job tells the operator: one JSON object of at most 4,000 bytes in the termination message.

Success is :meth:`copies.Facts.message`. A failure has the form of the engine's report: ``code``, figures,
``message``, ``hint``. No secret is in either, nor in a log line: every text passes :class:`Redaction`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path

from llmservice_operator.api import copies
from llmservice_operator.fetch.errors import FetchError, InvalidSource

_SHAPES = re.compile(
    r"\bhf_[A-Za-z0-9_-]{6,}"  # a hub token
    r"|(?<=://)[^/\s@]+@"  # user and password in a URL
    r"|(?i:(?<=bearer )\S+)"
    r"|(?<=[?&])(?:X-Amz-|Signature|Policy|Key-Pair-Id|Expires|sig=)[^\s'\"]*"  # what signs a URL
)


class Redaction(logging.Filter):
    """Known secrets, and what has the shape of one, become ``***``. As a log filter it does so to each line."""

    def __init__(self) -> None:
        super().__init__()
        self._secrets: set[str] = set()

    def hide(self, *secrets: str | None) -> None:
        self._secrets.update(secret for secret in secrets if secret and len(secret) >= 4)

    def clean(self, text: str) -> str:
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return _SHAPES.sub("***", text)

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.clean(record.getMessage()), ()
        if record.exc_info:
            record.msg += "\n" + self.clean(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True


def failure(error: BaseException, redaction: Redaction) -> dict[str, int | str]:
    """What happened, as one flat object."""
    if isinstance(error, FetchError):
        code, message, hint, figures = error.code, error.message, error.hint, error.figures
    else:
        code, message, figures = "InternalError", f"{type(error).__name__}: {error}", {}
        hint = "this is a fault of the operator: the job's log has its traceback"
    return {
        "code": code,
        **{_camel_case(name): value for name, value in figures.items()},
        "message": redaction.clean(message),
        "hint": redaction.clean(hint),
    }


def encode(report: dict[str, int | str], limit: int = copies.LONGEST_MESSAGE) -> str:
    """As JSON of at most ``limit`` bytes: texts are cut, the longest first, figures never."""
    report = dict(report)
    while len((encoded := json.dumps(report)).encode()) > limit:
        texts = {key: value for key, value in report.items() if isinstance(value, str)}
        longest = max(texts, key=lambda key: len(texts[key]))
        over = max(16, (len(encoded) - limit) // 6)  # a character takes at most 6 bytes
        report[longest] = texts[longest].removesuffix("…")[:-over] + "…"
    return encoded


def write(where: Path, text: str) -> None:
    """To the termination log. A message that cannot be written is told on stderr and changes nothing else."""
    try:
        where.write_text(text, "utf-8")
    except OSError as problem:
        print(f"the report could not be written to {where}: {problem}", file=sys.stderr, flush=True)


def exit_code(error: BaseException) -> int:
    """2 where the command line is at fault, else 1."""
    return 2 if isinstance(error, InvalidSource) else 1


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
