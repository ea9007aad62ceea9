"""What must be so before a replica can start: the model is known, it fits, its copy is there.

Each stage is a condition of its own. A stage that does not apply has no condition.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmservice_planner.fit import Fit
from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import copies, quantities
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.status import claims, failures, progress

# Codes of a lookup or a copy that only a change of the spec, or of rights elsewhere, cures.
_FINAL = frozenset(
    {
        "AccessDenied",
        "BucketNotFound",
        "InvalidToken",
        "ModelGated",
        "ModelNotFound",
        "NoWeights",
        "RevisionNotFound",
        "TokenMissing",
        "UnsupportedArchitecture",
    }
)


_NO_BUDGET = StartupBudget(0, "Spec")  # of an engine; a job has none


@dataclass(frozen=True, slots=True)
class Stage:
    """``final``: waiting alone does not help."""

    done: bool
    reason: str
    message: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """A job that is tried until it succeeds, as far as it has come."""

    pods: tuple[Object, ...]
    pods_before: tuple[Object, ...]  # of the attempt before


def model(wanted: LLMService, known: copies.Facts | None, work: Work, seen: Seen) -> Stage:
    if known is not None:
        return Stage(True, "Resolved", _told(known))
    what = _source(wanted)
    return _failed(work, seen, f"looking up {what}") or Stage(
        False, "ResolvingModel", _with(f"looking up {what}", progress.slowest(work.pods))
    )


def cache(wanted: LLMService, known: copies.Facts | None, work: Work, copied: bool, seen: Seen) -> Stage:
    """Of a claim that holds a copy."""
    name, claim = wanted.claim_name, seen.cache.claim
    if copied:
        what = f"{known.revision[:12]} is" if known is not None and known.revision else "the copy is"
        reason, text = ("Copied", f"{what} on claim {name}") if wanted.prefetches else _pods_copy(wanted)
        notes = claims.contradictions(wanted, claim)
        return Stage(True, notes[0][0] if notes else reason, "; ".join([text, *(note for _, note in notes)]))
    for child in seen.cache.refused:
        reason = "ExpansionRefused" if claim is not None else "ClaimRefused"
        return Stage(False, reason, f"{child.kind} {child.name}: {child.message}", final=True)
    if claim is None:
        waits = "; it is made once the model's size is known" if known is None else ""
        return Stage(False, "CacheClaimPending", f"claim {name} does not exist yet{waits}")
    events = seen.events.get(str(claim["metadata"].get("uid")), ())
    broken = failures.of_claim(claim, events)
    if broken is not None:
        return Stage(False, broken.reason, broken.message, final=broken.final)
    size = quantities.readable(known.bytes) if known is not None else "the model"
    return _failed(work, seen, f"copying to claim {name}") or Stage(
        False, "Copying", _with(f"copying {size} to claim {name}", progress.slowest(work.pods))
    )


def memory(wanted: LLMService, found: Fit | None) -> Stage | None:
    """The verdict, in the words that the engine and ``llmservice plan`` use too."""
    if found is None or found.verdict == "Unknown":
        return None
    if found.verdict != "DoesNotFit":
        return Stage(True, found.verdict, found.message)
    device = wanted.spec.accelerator
    reason = "InsufficientGPUMemory" if device.count else "InsufficientMemory"
    return Stage(False, reason, found.message, final=device.fit_policy == "Enforce")


def _failed(work: Work, seen: Seen, doing: str) -> Stage | None:
    """The failure of the attempt that counts, or of the one before while it is tried again."""
    for pods, again in ((work.pods, ""), (work.pods_before, "; it is being tried again")):
        open_ones = [pod for pod in pods if pod.get("status", {}).get("phase") != "Succeeded"]
        failure = failures.worst(open_ones, _NO_BUDGET, seen.events)
        if failure is not None:
            reason = "PrefetchFailed" if failure.reason == "CrashLoopBackOff" else failure.reason
            final = failure.final or reason in _FINAL
            return Stage(False, reason, f"{doing}: {failure.message}{again}", final)
    return None


def _told(known: copies.Facts) -> str:
    told = [f"revision {known.revision}"] if known.revision else []
    if known.parameters:
        told.append(f"{known.parameters / 1e9:.2f} B parameters")
    if known.dtype:
        told.append(known.dtype)
    size = known.bytes or known.weight_bytes
    return ", ".join([*told, f"{quantities.readable(size)} in {known.files} files"])


def _source(wanted: LLMService) -> str:
    source = wanted.source
    match next(iter(source)):
        case "hf":
            return f"{source['hf']['repo']} at {source['hf']['revision']}"
        case "s3":
            return str(source["s3"]["uri"])
        case _:
            return f"claim {wanted.claim_name}"


def _pods_copy(wanted: LLMService) -> tuple[str, str]:
    return "CopiedByPods", f"each replica copies to claim {wanted.claim_name} before its engine starts"


def _with(text: str, more: str) -> str:
    return f"{text}; {more}" if more else text
