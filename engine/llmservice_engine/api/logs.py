"""One line an event, on stderr: time, level, what happened, key=value. Never a prompt, an answer or a secret."""

from __future__ import annotations

import logging
import sys
import time


def configure(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("llmservice").setLevel(level.upper())
    logging.getLogger("llmservice_engine").setLevel(level.upper())
