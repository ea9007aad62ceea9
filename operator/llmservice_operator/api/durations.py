"""Durations as the resource writes them: ``120s``, ``15m``, ``1h30m``."""

from __future__ import annotations

import re

PATTERN = r"^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$"
LONGEST = 24 * 3600  # seconds; no field takes more
_SECONDS = {"h": 3600, "m": 60, "s": 1}


def seconds(text: str) -> int:
    """Whole seconds.

    Raises:
        ValueError: not a duration.
    """
    if not text or not re.fullmatch(PATTERN, text):
        raise ValueError(f"{text!r} is not a duration; write it like 120s, 15m or 1h30m")
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)([hms])", text))
