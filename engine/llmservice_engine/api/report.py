"""The failure report: why the engine did not start, for machines and for people.

One JSON object of at most 4,000 bytes goes to the container's termination log, where the kubelet picks it up (it
keeps 4,096) and the operator quotes it in a condition; one readable line goes to stderr. Figures come first, and long
texts are cut, so that the object is whole whatever happened. No secret is ever in it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from llmservice_planner.settings import SettingsError

from llmservice_engine.core.errors import EngineError, InvalidSettings

MAX_BYTES = 4_000
TERMINATION_LOG = "/dev/termination-log"  # Kubernetes' default
_PATH_VARIABLE = "LLMSERVICE_TERMINATION_LOG_PATH"  # where terminationMessagePath is another one
_SECRET_VARIABLES = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "VLLM_API_KEY",
)
_SECRET_SHAPES = re.compile(r"\b(?:hf|sk)[_-][A-Za-z0-9_-]{8,}|(?<=://)[^/\s@]+@|(?i:(?<=bearer )\S+)")


def failure(error: BaseException) -> dict[str, int | str]:
    """What happened, as one flat object: code, figures, message, hint."""
    if isinstance(error, EngineError):
        code, message, hint = error.code, error.message, error.hint
    elif isinstance(error, SettingsError):
        code, message, hint = (
            InvalidSettings.__name__,
            str(error),
            "`llmservice-engine serve --help` lists the flags",
        )
    else:
        code, hint = "InternalError", "this is a fault of the engine: the log above has its traceback"
        message = f"{type(error).__name__}: {error}"
    figures = error.figures if isinstance(error, EngineError) else {}
    return {
        "code": code,
        **{_camel_case(name): value for name, value in figures.items()},
        "message": _redact(message),
        "hint": _redact(hint),
    }


def encode(report: dict[str, int | str], limit: int = MAX_BYTES) -> bytes:
    """As JSON of at most ``limit`` bytes: texts are cut, the longest first, figures never."""
    report = dict(report)
    while len(encoded := json.dumps(report, ensure_ascii=False).encode("utf-8", "replace")) > limit:
        texts = {key: value for key, value in report.items() if isinstance(value, str)}
        longest = max(texts, key=lambda key: len(texts[key]))
        text = texts[longest].removesuffix("…")
        over = max(16, (len(encoded) - limit) // 6)  # a character takes at most 6 bytes
        report[longest] = text[: max(0, len(text) - over)] + "…"
    return encoded


def write(error: BaseException) -> None:
    """To the termination log where there is one, and to stderr always."""
    report = failure(error)
    where = Path(os.environ.get(_PATH_VARIABLE) or TERMINATION_LOG)
    try:
        if where.exists():  # outside a container there is none, and none is made
            where.write_bytes(encode(report))
    except OSError as problem:
        print(f"the failure report could not be written to {where}: {problem}", file=sys.stderr)
    hint = f" ({report['hint']})" if report["hint"] else ""
    print(f"error: {report['code']}: {report['message']}{hint}", file=sys.stderr, flush=True)


def exit_code(error: BaseException) -> int:
    """2 where the command line is at fault, else 1."""
    return 2 if isinstance(error, SettingsError | InvalidSettings) else 1


def _redact(text: str) -> str:
    for variable in _SECRET_VARIABLES:
        secret = os.environ.get(variable, "")
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return _SECRET_SHAPES.sub("***", text)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
