"""A cache: the claim and the jobs that copy models into it, rendered from every service that uses it.

It belongs to no single service: its owners are all of them (none where one says Retain), its size the largest asked
for, and it is never pruned for one. Of what cannot change on a claim the live value is rendered, so nothing loops.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from llmservice_operator.api import attempts, names, quantities
from llmservice_operator.api.attempts import Turn
from llmservice_operator.api.cache_key import CacheKey
from llmservice_operator.api.copies import Facts
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.seen import CacheSeen, Object
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import fetching

GIB = 2**30
ROOM = 1.2  # of the copy's bytes: temporary files, a second small revision


@dataclass(frozen=True, slots=True)
class User:
    """A service that uses the cache, and its model where that is known."""

    wanted: LLMService
    model: Facts | None


@dataclass(frozen=True, slots=True)
class Rendered:
    children: tuple[dict[str, Any], ...]
    unwanted: tuple[tuple[str, str], ...]
    due_in: float | None  # seconds until it should be rendered again


def render(
    key: CacheKey,
    users: Sequence[User],
    bodies: Sequence[Object],
    seen: CacheSeen,
    defaults: Defaults,
    now: datetime,
) -> Rendered:
    """Claim, then a job for every copy that a user waits for. ``bodies``: of every user, the invalid ones too."""
    managed = [
        user for user in users if user.wanted.cache is not None and user.wanted.cache.mode == "Managed"
    ]
    claim = _claim(key, managed, bodies, seen.claim, defaults) if managed else None
    replaced = claim is not None and _is_replaceable(claim, seen.claim)
    turns = [] if seen.claim is None or replaced else list(_turns(users, seen, now))
    jobs = [_job(key, bodies, turn, user, seen, defaults) for turn, user in turns]
    all_stay = not replaced and _some_are_unknown(users, bodies)
    surplus = () if all_stay else attempts.surplus(seen.jobs, (turn for turn, _ in turns))
    unwanted = [("Job", name) for name in surplus]
    if replaced:
        unwanted.append(("PersistentVolumeClaim", key.claim))
    children = (*((claim,) if claim is not None and not replaced else ()), *jobs)
    due = [turn.due_in for turn, _ in turns if turn.due_in is not None]
    return Rendered(children, tuple(unwanted), min(due, default=None))


def turn(user: User, seen: CacheSeen, now: datetime) -> Turn | None:
    """Where the copy for one service stands; None where there is nothing to copy into, or nothing known to copy."""
    if user.model is None or seen.claim is None or not user.wanted.prefetches:
        return None
    return attempts.turn(seen.jobs, _base(user, seen.claim), now)


def _claim(
    key: CacheKey, users: Sequence[User], bodies: Sequence[Object], live: Object | None, defaults: Defaults
) -> dict[str, Any] | None:
    """None while its size is not known: the model has not been looked up."""
    sizes = [size for user in users if (size := _size(user)) is not None]
    first = next((user.wanted for user in users if _decides(user.wanted)), users[0].wanted)
    if not sizes and live is None:
        return None
    asked = first.cache
    assert asked is not None, "managed"
    spec: dict[str, Any] = {
        "accessModes": [asked.access_mode or "ReadWriteMany"],
        "resources": {"requests": {"storage": quantities.gib(max([*sizes, _asked_size(live)]))}},
    }
    storage_class = asked.storage_class_name or defaults.storage_class_name
    if storage_class:
        spec["storageClassName"] = storage_class
    if live is not None and not _is_replaceable({"spec": spec}, live):
        kept = live.get("spec", {})  # of what is asked, what it has
        spec |= {
            field: kept[field] for field in spec.keys() & {"accessModes", "storageClassName"} & kept.keys()
        }
    metadata: dict[str, Any] = {
        "labels": names.cache_labels(key.claim),
        "name": key.claim,
        "namespace": key.namespace,
    }
    if not any(_retains(body) for body in bodies):
        metadata["ownerReferences"] = _owners(bodies)
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _is_replaceable(wanted: Mapping[str, Any], live: Object | None) -> bool:
    """An unbound claim with another class, mode or size than is asked: it cannot change before it is bound, and
    nothing is lost when it is made anew."""
    if live is None:
        return False
    have = live.get("spec", {})
    if have.get("volumeName") or live.get("status", {}).get("phase") == "Bound":
        return False
    asked = wanted["spec"]
    other_class: bool = have.get("storageClassName") != asked.get(
        "storageClassName", have.get("storageClassName")
    )
    other_mode = list(have.get("accessModes") or ()) != asked["accessModes"]
    return other_class or other_mode or _asked_size(wanted) != _asked_size(live)


def _some_are_unknown(users: Sequence[User], bodies: Sequence[Object]) -> bool:
    """While an edited service's model is looked up (or its spec is mended), whose copy a job made is not known: what
    runs goes on, and what is complete is not copied again."""
    return len(users) < len(bodies) or any(user.model is None and user.wanted.prefetches for user in users)


def _turns(users: Sequence[User], seen: CacheSeen, now: datetime) -> Iterable[tuple[Turn, User]]:
    """One turn for every distinct copy; of its users the attempts go round, for each may bring another token."""
    by_base: dict[str, list[User]] = {}
    for user in users:
        if user.model is not None and user.wanted.prefetches:
            by_base.setdefault(_base(user, seen.claim), []).append(user)
    for base, sharing in sorted(by_base.items()):
        found = attempts.turn(seen.jobs, base, now)
        yield found, sharing[(found.number - 1) % len(sharing)]


def _job(
    key: CacheKey, bodies: Sequence[Object], turn: Turn, user: User, seen: CacheSeen, defaults: Defaults
) -> dict[str, Any]:
    if turn.job is not None:
        return dict(turn.job)
    assert user.model is not None, "a turn has one"
    base, labels = _base(user, seen.claim), names.cache_labels(key.claim)
    volume = {"persistentVolumeClaim": {"claimName": key.claim}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "annotations": attempts.marks(base, turn.number),
            "labels": labels,
            "name": attempts.name(base, turn.number),
            "namespace": key.namespace,
            "ownerReferences": _owners(bodies),
        },
        "spec": fetching.job_spec(user.wanted, defaults, "copy", labels, user.model.revision, volume),
    }


def _base(user: User, claim: Object | None) -> str:
    """The job's name without its number: one for every revision, choice of files and very claim. What was copied
    into a claim that has been deleted since is no copy."""
    files = user.wanted.source.get("hf", {}).get("files") or []
    uid = claim["metadata"].get("uid") if claim is not None else None
    identity = json.dumps([user.model.revision if user.model else "", sorted(files), uid])
    return f"{user.wanted.claim_name}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def seconds(wanted: LLMService, model: Facts) -> int:
    """How long a copy may take, by the rate that the spec assumes."""
    given = wanted.spec.startup
    return math.ceil(model.bytes / given.assumed_bytes_per_second * given.safety_factor)


def size(model: Facts | None) -> int:
    """Bytes of a volume for a copy of the model."""
    return max(1, math.ceil((model.bytes if model is not None else 0) * ROOM / GIB)) * GIB


def _size(user: User) -> int | None:
    cache = user.wanted.cache
    if cache is not None and cache.size is not None:
        return math.ceil(quantities.parse(cache.size))
    return size(user.model) if user.model is not None else None


def _asked_size(claim: Object | None) -> int:
    asked = (claim or {}).get("spec", {}).get("resources", {}).get("requests", {})
    return math.ceil(quantities.parse(asked.get("storage") or 0))


def _decides(wanted: LLMService) -> bool:
    cache = wanted.cache
    return cache is not None and bool(cache.storage_class_name or cache.access_mode)


def _retains(user: Object) -> bool:
    cache = user.get("spec", {}).get("cache") or {}
    return bool(cache.get("reclaimPolicy") != "Delete")


def _owners(users: Iterable[Object]) -> list[dict[str, Any]]:
    found = sorted((user["metadata"]["name"], user["metadata"]["uid"]) for user in users)
    return [
        {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": name, "uid": uid} for name, uid in found
    ]
