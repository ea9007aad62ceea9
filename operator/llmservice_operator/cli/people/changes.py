"""What an edit does: which fields differ, which children change, and whether pods restart. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llmservice_operator.api import names, quantities, revision
from llmservice_operator.api.spec import LLMService, LLMServiceSpec
from llmservice_operator.desired import revisions

Body = dict[str, Any]
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One child. ``fields``: what differs in it, in Kubernetes' spelling."""

    action: str  # created, changed, removed
    kind: str
    name: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edit:
    fields: tuple[str, ...]  # of the spec, that differ
    because: tuple[str, ...]  # those of them that the pods are made from
    restarts: int  # pods that are replaced
    starts: int  # pods that there are more, or fewer, afterwards
    children: tuple[Change, ...]

    @property
    def sentence(self) -> str:
        said = []
        if self.because and self.restarts:
            said.append(f"restarts {_pods(self.restarts)} because {_listed(self.because)} changed")
        if self.starts > 0:
            said.append(f"starts {_pods(self.starts)} more")
        if self.starts < 0:
            said.append(f"ends {_pods(-self.starts)}")
        if not self.fields:
            return "this edit changes nothing"
        if not said and self.because:
            return f"this edit restarts nothing, for no pod runs; the next pods get {_listed(self.because)}"
        if not self.restarts:
            said.insert(0, "restarts nothing")
        return f"this edit {' and '.join(said)}"


def between(
    old: LLMService,
    new: LLMService,
    old_children: tuple[Body, ...],
    new_children: tuple[Body, ...],
    running: int | None = None,
) -> Edit:
    """``running``: pods that there are, where a cluster has been asked."""
    fields = tuple(differing(_plain(old), _plain(new), "spec"))
    because: tuple[str, ...] = ()
    if revision.hash_of(old) != revision.hash_of(new):
        because = tuple(field for field in fields if _feeds_pods(old, new, field)) or fields
    before, after = _count(old, running), _count(new, running)
    return Edit(
        fields=fields,
        because=because,
        restarts=min(before, after) if because else 0,
        starts=after - before,
        children=tuple(_children(old_children, new_children)),
    )


def differing(old: Any, new: Any, path: str) -> Iterator[str]:
    """Paths of what differs; a list is one value, but where its items have names."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            one, other = old.get(key, _ABSENT), new.get(key, _ABSENT)
            step = f"{path}[{key}]" if "/" in key or "." in key else f"{path}.{key}"
            if isinstance(one, Mapping) or isinstance(other, Mapping):
                yield from differing({} if one is _ABSENT else one, {} if other is _ABSENT else other, step)
            elif one is not _ABSENT and other is not _ABSENT:
                yield from differing(one, other, step)
            else:
                yield step
    elif (before := _named(old)) and (after := _named(new)):
        for name in dict.fromkeys((*before, *after)):
            step = f"{path}[{name}]"
            if name in before and name in after:
                yield from differing(before[name], after[name], step)
            else:
                yield step
    elif not _same(old, new):
        yield path


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or quantities.equal(one, other)


def _named(items: Any) -> dict[str, Any]:
    """A list's items by name; nothing where some have none, or two the same."""
    if not isinstance(items, list) or not all(isinstance(item, dict) and "name" in item for item in items):
        return {}
    found = {str(item["name"]): item for item in items}
    return found if len(found) == len(items) else {}


def _plain(wanted: LLMService) -> dict[str, Any]:
    found: dict[str, Any] = wanted.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return found


def _feeds_pods(old: LLMService, new: LLMService, field: str) -> bool:
    """Would this field alone, edited, make another template?"""
    steps = _steps(_whole(old, new, field))
    edited = copy.deepcopy(_plain(old))
    below, value = edited, _plain(new)
    for step in steps[:-1]:
        below = below.setdefault(step, {})
        value = value.get(step, {})
    if steps[-1] in value:
        below[steps[-1]] = value[steps[-1]]
    else:
        below.pop(steps[-1], None)
    try:
        alone = old.model_copy(update={"spec": LLMServiceSpec.model_validate(edited)})
        return revision.hash_of(alone) != revision.hash_of(old)
    except (ValueError, AssertionError, StopIteration, AttributeError):
        return True  # the field is one of several that only make sense together


def _whole(old: LLMService, new: LLMService, field: str) -> str:
    """The path of the list that the field is in, or of the field."""
    plain: list[Any] = [_plain(old), _plain(new)]
    path = "spec"
    for step in _steps(field):
        plain = [one.get(step) if isinstance(one, dict) else None for one in plain]
        path += f"[{step}]"
        if any(isinstance(one, list) for one in plain):
            return path
    return path


def _steps(field: str) -> list[str]:
    """``spec.a[b/c.d].e`` → a, b/c.d, e."""
    steps: list[str] = []
    rest = field.removeprefix("spec")
    while rest:
        if rest[0] == "[":
            step, _, rest = rest[1:].partition("]")
        else:
            rest = rest[1:]
            end = min((at for at in (rest.find("."), rest.find("[")) if at >= 0), default=len(rest))
            step, rest = rest[:end], rest[end:]
        steps.append(step)
    return steps


def _count(wanted: LLMService, running: int | None) -> int:
    """Pods of an object: what the spec says, else what runs, else one."""
    least = wanted.least_replicas
    if wanted.spec.suspend:
        return 0
    if wanted.spec.autoscaling is not None and running is not None:
        return max(least or 0, min(running, wanted.spec.autoscaling.max_replicas))
    return least if least is not None else running if running is not None else 1


def _children(old: tuple[Body, ...], new: tuple[Body, ...]) -> Iterator[Change]:
    before, after = _lasting(old), _lasting(new)
    for (kind, name), child in after.items():
        was = before.get((kind, name))
        if was is None:
            yield Change("created", kind, name)
        elif fields := tuple(differing(_comparable(was), _comparable(child), "")):
            yield Change("changed", kind, name, tuple(field.removeprefix(".") for field in fields))
    for kind, name in before.keys() - after.keys():
        if (kind, name) not in after:
            yield Change("removed", kind, name)


def _lasting(children: tuple[Body, ...]) -> dict[tuple[str, str], Body]:
    """Without revisions and the lookup's job, which come and go with every template."""
    return {
        (child["kind"], child["metadata"]["name"]): child
        for child in children
        if child["kind"] != revisions.KIND
        and not (child["kind"] == "Job" and names.INSTANCE_LABEL in child["metadata"]["labels"])
    }


def _comparable(child: Body) -> Body:
    """Without what only follows from the rest: the hashes."""
    made = copy.deepcopy(child)
    made["metadata"].get("annotations", {}).pop(names.RENDER_HASH, None)
    made["metadata"].get("annotations", {}).pop(names.ROLLOUT, None)
    template = made.get("spec", {}).get("template", {}).get("metadata", {})
    template.get("labels", {}).pop(names.REVISION_LABEL, None)
    for container in made.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        container["args"] = " ".join(container.get("args") or ())
    return made


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _listed(fields: tuple[str, ...]) -> str:
    return fields[0] if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]}"
