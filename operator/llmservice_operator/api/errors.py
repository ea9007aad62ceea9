"""InvalidSpec(ValueError): a spec that cannot be served."""

from __future__ import annotations


class InvalidSpec(ValueError):
    """The spec must change. ``path`` names the field (``spec.engine.args[2]``), ``message`` says what is wrong."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message
