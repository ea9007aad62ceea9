"""How long a start of this object may take, from its spec or from the size of its claim."""

from __future__ import annotations

from llmservice_planner import startup
from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import durations, quantities
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import revisions

LONGEST_SECONDS = durations.LONGEST  # a claim far larger than its model must not hide a hung start for ever


def budget(wanted: LLMService, seen: Seen) -> StartupBudget:
    """The budget in force: the one frozen with the template of this spec, else a new one."""
    frozen = revisions.of_spec(wanted, seen)
    if frozen is not None:
        return frozen.budget
    given = wanted.spec.startup
    if given.deadline is not None:
        return StartupBudget(durations.seconds(given.deadline), "Spec")
    claim = seen.claims.get(wanted.claim_name)
    derived = startup.derive(
        claim_bytes(claim) if claim is not None else 0, given.assumed_bytes_per_second, given.safety_factor
    )
    return StartupBudget(min(derived.deadline_seconds, LONGEST_SECONDS), derived.basis)


def claim_bytes(claim: Object) -> int:
    """The claim's size, an upper bound of the model's; 0 where it has none yet."""
    capacity = claim.get("status", {}).get("capacity", {})
    asked = claim.get("spec", {}).get("resources", {}).get("requests", {})
    return int(quantities.parse(capacity.get("storage") or asked.get("storage") or 0))
