"""Why a prompt cannot be made into tokens, or a grammar not be followed.

RequestError (core)
└── PromptError               names the field of the body that is wrong
    ├── NoChatTemplate
    ├── TemplateRefused       the template's own words
    └── GrammarError          of structured output
"""

from __future__ import annotations

from llmservice_engine.core.errors import RequestError


class PromptError(RequestError):
    """A prompt that cannot be made into tokens. ``param`` is the body's field, such as ``messages[1].role``."""

    def __init__(self, message: str, *, param: str) -> None:
        super().__init__(message)
        self.param = param


class NoChatTemplate(PromptError):
    """A conversation for a model that has no chat template."""

    def __init__(self) -> None:
        super().__init__(
            "this model has no chat template, so it serves /v1/completions only; "
            "start the engine with --chat-template FILE to serve conversations",
            param="messages",
        )


class TemplateRefused(PromptError):
    """The chat template raised an error about this conversation."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the model's chat template refuses these messages: {reason}", param="messages")


class GrammarError(PromptError):
    """A grammar for structured output that cannot be served."""
