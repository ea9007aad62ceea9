"""What was decided before anything is rendered: what is known of the model, and how far it is prepared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmservice_planner.fit import Fit
from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import attempts
from llmservice_operator.api.attempts import Turn
from llmservice_operator.api.copies import Facts
from llmservice_operator.api.spec import LLMService


@dataclass(frozen=True, slots=True)
class Rollout:
    strategy: Literal["Surge", "Recycle", "Recreate"]
    reason: str
    found_out: bool = False  # by what the cluster looked like, and so kept until the rollout is over


@dataclass(frozen=True, slots=True)
class Plan:
    """``model``: None while it is not known. ``memory``: None where no verdict is wanted or no figure is given.

    ``lookup`` and ``copy``: where their jobs stand; None where there is no such job.
    """

    budget: StartupBudget
    rollout: Rollout
    model: Facts | None = None
    memory: Fit | None = None
    lookup: Turn | None = None
    copy: Turn | None = None
    lacking: tuple[str, ...] = ()  # kinds that the spec asks for and the cluster does not serve

    def forbids_pods(self, wanted: LLMService) -> bool:
        """The policy is to make no pods of what cannot fit, and that is so, or is not known yet."""
        if wanted.spec.accelerator.fit_policy != "Enforce":
            return False
        if self.memory is not None:
            return self.memory.verdict == "DoesNotFit"
        return self.model is None and self.lookup is not None

    def copied(self, wanted: LLMService) -> bool:
        """The copy is there, or no job makes one."""
        return not wanted.prefetches or (self.copy is not None and self.copy.complete)

    @property
    def is_copying(self) -> bool:
        """A job is at it."""
        return self.copy is not None and self.copy.job is not None and attempts.ended(self.copy.job) is None
