"""Why the engine refuses.

    EngineError
    ├── StartupError          the engine cannot start; becomes the failure report
    │   ├── InsufficientMemory / InsufficientGPUMemory
    │   ├── ModelNotFound
    │   ├── WeightsIncomplete
    │   ├── UnsupportedArchitecture
    │   └── InvalidSettings
    └── RequestError          one request cannot be served; becomes a 4xx
        └── RequestTooLong

``code`` is what status conditions and clients see; ``figures`` are numbers that go first in the report.
"""

from __future__ import annotations

from collections.abc import Mapping


class EngineError(Exception):
    """A refusal that carries numbers and the next move."""

    def __init__(self, message: str, *, hint: str = "", figures: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.figures = dict(figures or {})

    @property
    def code(self) -> str:
        return type(self).__name__


class StartupError(EngineError):
    """The engine cannot start with this model, these settings, on this machine."""


class InsufficientMemory(StartupError):
    """The machine (or the container's limit) holds too little for weights and one full-length sequence."""


class InsufficientGPUMemory(StartupError):
    """The accelerator holds too little for weights and one full-length sequence."""


class ModelNotFound(StartupError):
    """The folder does not exist or holds no model."""


class WeightsIncomplete(StartupError):
    """A weight file or tensor that the model needs is missing or damaged."""


class UnsupportedArchitecture(StartupError):
    """The model's architecture is not served."""


class InvalidSettings(StartupError):
    """A flag has a value that cannot be used with this model."""


class RequestError(EngineError):
    """One request cannot be served; others are not affected."""


class RequestTooLong(RequestError):
    """Prompt and wanted output exceed the context or the whole KV cache."""
