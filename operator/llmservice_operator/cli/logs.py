"""Log lines: what happened, to which object, at which generation."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

FIELDS = ("object", "generation", "child")  # given with ``extra=`` where a line is about an object


class Text(logging.Formatter):
    """``2026-01-31T12:00:00.123Z INFO default/chat gen=3 created Deployment child=chat``"""

    def format(self, record: logging.LogRecord) -> str:
        about = [str(getattr(record, "object", "-"))]
        if hasattr(record, "generation"):
            about.append(f"gen={record.generation}")
        tail = f" child={record.child}" if hasattr(record, "child") else ""
        line = f"{_time(record)} {record.levelname} {' '.join(about)} {record.getMessage()}{tail}"
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


class Json(logging.Formatter):
    """The same as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record), "level": record.levelname.lower(), "message": record.getMessage()}
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        line |= {"logger": record.name}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str, *, as_json: bool) -> None:
    """All logs to standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if as_json else Text())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
