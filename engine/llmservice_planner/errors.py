"""Why a model cannot be planned for.

ValueError
├── ShapeError       no shape can be read from ``config.json``
├── SplitError       the shape does not divide over so many devices
├── LengthError      the wanted length is beyond the model's own limit
└── Infeasible       it does not fit (in ``plan``): need, have, try
"""

from __future__ import annotations


class ShapeError(ValueError):
    """A ``config.json`` from which no shape can be read; the message names the field."""


class SplitError(ValueError):
    """A model that cannot be split over that number of devices: what does not divide, and what would."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.hint = hint


class LengthError(ValueError):
    """A ``--max-model-len`` beyond the model's own limit."""

    def __init__(self, length: int, context: int) -> None:
        self.message = f"--max-model-len {length} is more than the model's own limit of {context} tokens"
        self.hint = (
            f"try --max-model-len {context}, or leave it out; "
            f"--hf-overrides '{{\"max_position_embeddings\": {length}}}' insists, and text may become nonsense"
        )
        super().__init__(f"{self.message}; {self.hint}")
