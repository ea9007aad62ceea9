"""What an output must match, as the scheduler and the sampler see it: token ids and bits, no grammar and no text."""

from __future__ import annotations

from typing import Protocol


class Matcher(Protocol):
    """How far one sequence's output has come in its constraint.

    It belongs to one request and follows that request's output alone, so it outlives a preemption as it is. Tokens
    that turn out not to belong to the output are taken back with ``rollback``.
    """

    def mask(self) -> bytes:
        """The tokens that may come next, a bit each: token ``i`` is bit ``i % 8`` of byte ``i // 8``.

        Ids beyond the last byte may not come. Called on another thread, never while ``advance`` runs.
        """
        ...

    def advance(self, token_id: int) -> None:
        """The output goes on with ``token_id``, which the mask allowed."""
        ...

    def rollback(self, tokens: int) -> None:
        """The last ``tokens`` tokens are not part of the output after all."""
        ...

    @property
    def finished(self) -> bool:
        """Nothing but an end of text may follow."""
        ...


class Constraint(Protocol):
    """A compiled constraint. Any number of sequences may follow it at the same time."""

    def start(self) -> Matcher:
        """The state of an output that is still empty."""
        ...
