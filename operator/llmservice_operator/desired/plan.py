"""What is decided before anything is rendered: the model as it is known, the start-up budget, the verdict on memory."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime

from llmservice_planner import fit, settings, startup
from llmservice_planner.fit import Device, Fit
from llmservice_planner.settings import EngineSettings
from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import durations, quantities
from llmservice_operator.api.copies import Facts
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import copying, extras, lookup, revisions, rollout

LONGEST_SECONDS = durations.LONGEST  # a claim far larger than its model must not hide a hung start for ever


def for_spec(wanted: LLMService, seen: Seen, now: datetime) -> Plan:
    model = lookup.facts(wanted, seen, now)
    return Plan(
        budget=budget(wanted, seen, model),
        rollout=rollout.decide(wanted, seen, now),
        model=model,
        memory=memory(wanted, model),
        lookup=lookup.turn(wanted, seen, now),
        copy=copying.turn(copying.User(wanted, model), seen.cache, now),
        lacking=extras.lacking(wanted, seen.served),
    )


def budget(wanted: LLMService, seen: Seen, model: Facts | None = None) -> StartupBudget:
    """The budget in force: the one frozen with the template of this spec, else a new one."""
    frozen = revisions.of_spec(wanted, seen)
    if frozen is not None:
        return frozen.budget
    given = wanted.spec.startup
    if given.deadline is not None:
        return StartupBudget(durations.seconds(given.deadline), "Spec")
    took = _took_before(wanted, seen)
    if took is not None:
        made = startup.observed(took, given.safety_factor)
    else:
        claim = seen.claims.get(wanted.claim_name or "")
        size = model.weight_bytes if model is not None else claim_bytes(claim) if claim is not None else 0
        made = startup.derive(size, given.assumed_bytes_per_second, given.safety_factor)
    return StartupBudget(min(made.deadline_seconds, LONGEST_SECONDS), made.basis)


def kind_of_start(wanted: LLMService) -> str:
    """Starts of one kind take about as long: the same weights, devices and engine."""
    device = wanted.spec.accelerator
    identity = [wanted.source, device.count, device.resource_name, wanted.spec.engine.image]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]


def memory(wanted: LLMService, model: Facts | None) -> Fit | None:
    """Does it fit, by what the spec says of the memory?"""
    devices = device(wanted)
    if model is None or devices is None or wanted.spec.accelerator.fit_policy == "Ignore":
        return None
    return fit.judge(model.config, engine_settings(wanted), devices, model.weight_bytes or None)


def device(wanted: LLMService) -> Device | None:
    """The devices of one replica; None where the spec does not say how much memory they have."""
    given = wanted.spec.accelerator
    if given.count:
        each = given.memory_per_device
        return Device(int(quantities.parse(each)), given.count, "gpu") if each is not None else None
    limit = wanted.spec.resources.limits.get("memory")
    return Device(int(quantities.parse(limit)), 1, "cpu") if limit is not None else None


def engine_settings(wanted: LLMService) -> EngineSettings:
    """The settings that the engine will read; of another image's own flags those that are ours too."""
    typed = [
        part
        for name, value in wanted.spec.engine.settings().items()
        for part in (settings.flag(name), str(value))
    ]
    try:
        return settings.parse_args(["--model", "model", *typed, *wanted.spec.engine.args])
    except settings.SettingsError:
        return settings.parse_args(["--model", "model", *typed])


def claim_bytes(claim: Object) -> int:
    """The claim's size, an upper bound of the model's; 0 where it has none yet."""
    capacity = claim.get("status", {}).get("capacity", {})
    asked = claim.get("spec", {}).get("resources", {}).get("requests", {})
    return int(quantities.parse(capacity.get("storage") or asked.get("storage") or 0))


def _took_before(wanted: LLMService, seen: Seen) -> float | None:
    """Seconds that the last start took, where it was of the same kind."""
    serving = revisions.serving(wanted, seen)
    took = (seen.status.get("startup") or {}).get("lastLoadSeconds")
    same = serving is not None and serving.kind_of_start == kind_of_start(wanted)
    return float(took) if took is not None and same else None
