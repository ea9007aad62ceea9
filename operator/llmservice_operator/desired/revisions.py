"""The pod template, frozen per spec: a ControllerRevision keeps what was rendered for each spec hash.

While the hash is unchanged the stored template is applied, whatever the operator's version, its defaults or a
budget learnt since. So neither an operator upgrade nor a measurement restarts a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import copies, names, revision
from llmservice_operator.api.copies import Facts
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService

KIND = "ControllerRevision"
KEPT = 3  # newest revisions that stay, besides those in use


@dataclass(frozen=True, slots=True)
class Revision:
    """A template, the budget that its startup probe was made from, and the model that it serves."""

    hash: str
    number: int
    template: Mapping[str, Any]
    budget: StartupBudget
    model: Facts | None = None  # as it was looked up
    kind_of_start: str = ""  # starts of one kind take about as long

    def data(self) -> dict[str, Any]:
        """As the ControllerRevision keeps it."""
        return {
            "template": dict(self.template),
            "startup": {
                "deadlineSeconds": self.budget.deadline_seconds,
                "basis": self.budget.basis,
                **({"kind": self.kind_of_start} if self.kind_of_start else {}),
            },
            **({"model": asdict(self.model)} if self.model is not None else {}),
        }


def name(wanted: LLMService, spec_hash: str) -> str:
    return names.child(wanted.name, spec_hash)


def of_spec(wanted: LLMService, seen: Seen) -> Revision | None:
    """What was frozen for the spec as it is now."""
    return _stored(wanted, seen, revision.hash_of(wanted))


def serving(wanted: LLMService, seen: Seen) -> Revision | None:
    """What the live Deployment runs."""
    deployment = seen.child("Deployment", names.child(wanted.name))
    spec_hash = hash_label(deployment) if deployment is not None else None
    return _stored(wanted, seen, spec_hash) if spec_hash else None


def next_number(seen: Seen) -> int:
    return 1 + max((_number(child) for (kind, _), child in seen.children.items() if kind == KIND), default=0)


def surplus(wanted_names: frozenset[str], seen: Seen) -> tuple[str, ...]:
    """Stored revisions that nobody needs: not wanted, not served by a live Deployment, not among the newest."""
    stored = {found: child for (kind, found), child in seen.children.items() if kind == KIND}
    newest = sorted(stored, key=lambda found: (_number(stored[found]), found), reverse=True)[:KEPT]
    served = {hash_label(child) for (kind, _), child in seen.children.items() if kind == "Deployment"}
    return tuple(
        found
        for found, child in sorted(stored.items())
        if found not in wanted_names and found not in newest and _label(child) not in served
    )


def hash_label(deployment: Object) -> str | None:
    """The spec hash that a Deployment's pod template carries."""
    template = deployment.get("spec", {}).get("template", {})
    found = template.get("metadata", {}).get("labels", {}).get(names.REVISION_LABEL)
    return str(found) if found else None


def _stored(wanted: LLMService, seen: Seen, spec_hash: str) -> Revision | None:
    child = seen.child(KIND, name(wanted, spec_hash))
    data = child.get("data") if child is not None else None
    if child is None or not isinstance(data, Mapping) or "template" not in data:
        return None
    startup, model = data["startup"], data.get("model")
    return Revision(
        hash=spec_hash,
        number=_number(child),
        template=data["template"],
        budget=StartupBudget(int(startup["deadlineSeconds"]), startup["basis"]),
        model=copies.facts(model) if model else None,
        kind_of_start=str(startup.get("kind", "")),
    )


def _number(child: Object) -> int:
    return int(child.get("revision") or 0)


def _label(child: Object) -> str | None:
    labels = child.get("metadata", {}).get("labels") or {}
    found = labels.get(names.REVISION_LABEL)
    return str(found) if found else None
