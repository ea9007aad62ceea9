"""Manifests of other projects as LLMServices, `examples/from/`, and all that is made of each file."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from llmservice_operator.api import names, spec
from llmservice_operator.api.cache_key import CacheKey
from llmservice_operator.api.seen import CacheSeen, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import copying, extras, render

from tests.docs.test_docs import as_stored
from tests.operator.desired import world
from tests.operator.desired.test_preparing import FACTS, done, told

FILES = sorted((Path(__file__).resolve().parents[3] / "examples" / "from").glob("*.yaml"))
CLAIM = "PersistentVolumeClaim"


def row(file: Path) -> str:
    return file.name.partition("-")[0]


def named(path: Path) -> str:
    return path.stem


def services(file: Path) -> list[dict[str, Any]]:
    """The file's LLMServices, as the API server stores them."""
    bodies = (body for body in yaml.safe_load_all(file.read_text()) if body["kind"] == "LLMService")
    return [as_stored({**body, "metadata": {"uid": f"uid-{number}", **body["metadata"]}})
            for number, body in enumerate(bodies)]  # fmt: skip


def own_claim(wanted: LLMService) -> dict[str, dict[str, Any]]:
    """The user's claim, where the weights are on one."""
    if wanted.cache is not None or wanted.claim_name is None:
        return {}
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "50Gi"}}}
    return {wanted.claim_name: {"metadata": {"name": wanted.claim_name}, "spec": asked}}


def caches(bodies: list[dict[str, Any]]) -> dict[str, CacheSeen]:
    """Managed claims by name with their finished copies: one of each, whoever uses it."""
    users: dict[str, list[tuple[dict[str, Any], LLMService]]] = {}
    for body in bodies:
        wanted = spec.parse(body)
        if wanted.cache is not None and wanted.claim_name is not None:
            users.setdefault(wanted.claim_name, []).append((body, wanted))
    return {claim: _copied(claim, of) for claim, of in users.items()}


def _copied(claim: str, users: list[tuple[dict[str, Any], LLMService]]) -> CacheSeen:
    key = CacheKey(users[0][1].namespace, claim)
    known = [copying.User(wanted, FACTS) for _, wanted in users]
    bodies = [body for body, _ in users]

    def rendered(seen: CacheSeen) -> tuple[dict[str, Any], ...]:
        found = copying.render(key, known, bodies, seen, world.DEFAULTS, world.NOON)
        return render.render_cache(found).children

    (made,) = rendered(CacheSeen())
    live = {**made, "metadata": {**made["metadata"], "uid": "claim-1"}}
    _, job = rendered(CacheSeen(claim=live))
    return CacheSeen(claim=made, jobs=(job,))


@functools.cache
def children(file: Path) -> tuple[dict[str, Any], ...]:
    """All that is made of a file."""
    return tuple(made_of(services(file)))


def made_of(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All that is made of the objects: claims and copies, then for each a lookup and the rest."""
    copies = caches(bodies)
    made: list[dict[str, Any]] = []
    for cache in copies.values():
        assert cache.claim is not None
        made += [dict(cache.claim), *map(dict, cache.jobs)]
    for body in bodies:
        made += _prepared(spec.parse(body), copies)
    return made


def _prepared(wanted: LLMService, copies: dict[str, CacheSeen]) -> Iterator[dict[str, Any]]:
    """The lookup's job first; when all is there, the rest."""
    seen = Seen(served=extras.OPTIONAL, claims=own_claim(wanted))
    if wanted.cache is None:
        yield from world.render_all(wanted, seen).children
        return
    lookup = next(child for child in world.render_all(wanted, seen).children if child["kind"] == "Job")
    yield lookup
    job = done(lookup)
    seen = dataclasses.replace(
        seen, children={("Job", job["metadata"]["name"]): job}, pods=(told(job, FACTS.message()),)
    )
    if (cache := copies.get(wanted.claim_name or "")) is not None:
        live = {**(cache.claim or {}), "status": {"phase": "Bound"}}
        live["metadata"] = {**live["metadata"], "uid": "claim-1"}
        cache = CacheSeen(claim=live, jobs=tuple(done(dict(job)) for job in cache.jobs))
        seen = dataclasses.replace(seen, cache=cache)
    frozen = next(
        child for child in world.render_all(wanted, seen).children if child["kind"] == "ControllerRevision"
    )
    frozen_too = {("ControllerRevision", frozen["metadata"]["name"]): frozen}
    yield from world.render_all(wanted, dataclasses.replace(seen, children=frozen_too)).children


def plain(name: str, namespace: str = "default", uid: str = "uid-0") -> list[dict[str, Any]]:
    """What is made of an object that says nothing but a model."""
    metadata = {"name": name, "namespace": namespace, "uid": uid}
    given = {"model": {"source": {"hf": {"repo": "plain/plain"}}}}
    return made_of([as_stored({"kind": "LLMService", "metadata": metadata, "spec": given})])


def records(made: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Children as they are written down: the hash of what follows left out, and revisions, whose template is the
    Deployment's."""
    kept = [copy.deepcopy(child) for child in made if child["kind"] != "ControllerRevision"]
    for child in kept:
        del child["metadata"]["annotations"][names.RENDER_HASH]
        if not child["metadata"]["annotations"]:
            del child["metadata"]["annotations"]
    return kept


def beside_plain(file: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The file's children, each with the same child of a plain object of the same name."""
    objects = [body["metadata"] for body in services(file)]
    of_plain = {of["uid"]: _by_role(plain(of["name"], of["namespace"], of["uid"])) for of in objects}
    first = objects[0]["uid"]
    for child in records(children(file)):
        others = of_plain[next(iter(owners(child)), first)]
        # of a kind that plain objects have none of, the metadata are like any other's
        yield child, others.get(_role(child), {"metadata": others["Service"]["metadata"]})


def beyond_plain(file: Path) -> list[dict[str, Any]]:
    """What :func:`differing` finds of the file's children, with the kind and the name of each."""
    made = []
    for child, other in beside_plain(file):
        found = differing(child, other)
        metadata = {"name": child["metadata"]["name"], **found.pop("metadata", {})}
        made.append({"kind": child["kind"], "metadata": metadata, **found})
    return made


def owners(child: dict[str, Any]) -> list[str]:
    return [owner["uid"] for owner in child["metadata"].get("ownerReferences", ())]


def _by_role(made: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {_role(child): child for child in records(made)}


def _role(child: dict[str, Any]) -> str:
    """The kind; of a job with its step."""
    if child["kind"] != "Job":
        return str(child["kind"])
    return f"Job to {child['spec']['template']['spec']['containers'][0]['args'][1]}"


def differing(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What makes the one of the other: null takes a field away; a mapping in a list's place has changes of its items
    by name and, at "+", those that follow."""
    found: dict[str, Any] = dict.fromkeys(other.keys() - one.keys())
    for key, value in one.items():
        was = other.get(key)
        if value == was:
            continue
        if isinstance(value, dict) and isinstance(was, dict):
            found[key] = differing(value, was)
        elif (before := _named(was)) and [*_named(value)][: len(before)] == [*before]:
            kept = dict(itertools.islice(_named(value).items(), len(before)))
            more = value[len(before) :]
            found[key] = differing(kept, before) | ({"+": more} if more else {})
        else:
            found[key] = value
    return found


def _named(items: Any) -> dict[str, Any]:
    """A list's items by name; nothing where some have none, or two the same."""
    if not isinstance(items, list) or not all(isinstance(item, dict) and "name" in item for item in items):
        return {}
    found = {item["name"]: item for item in items}
    return found if len(found) == len(items) else {}


def merged(other: Any, found: Any) -> Any:
    """The one that :func:`differing` was asked about."""
    if isinstance(other, list) and isinstance(found, dict):
        return [merged(item, found.get(item["name"], {})) for item in other] + found.get("+", [])
    if not (isinstance(other, dict) and isinstance(found, dict)):
        return found
    return {
        key: merged(other[key], value) if key in other and key in found else value
        for key, value in (other | found).items()
        if value is not None
    }


class Made:
    """The children of one object, as questions are put to them."""

    def __init__(self, file: Path, name: str) -> None:
        wanted = next(one for one in map(spec.parse, services(file)) if one.name == name)
        everything = children(file)
        mine = [child for child in everything if wanted.uid in owners(child) and "spec" in child]
        self.by_kind: dict[str, dict[str, Any]] = {
            child["kind"]: child["spec"] for child in mine if child["kind"] != "Job"
        }
        self.metadata = {child["kind"]: child["metadata"] for child in mine}
        claims = {child["metadata"]["name"]: child["spec"] for child in everything if child["kind"] == CLAIM}
        self.claim = claims.get(wanted.claim_name or "", {})
        jobs = [child["spec"]["template"]["spec"] for child in mine if child["kind"] == "Job"]
        self.job: dict[str, Any] = jobs[0] if jobs else {}
        self.deployment = self.by_kind["Deployment"]
        self.pod = self.deployment["template"]["spec"]
        self.labels = self.deployment["template"]["metadata"]["labels"]
        containers = {container["name"]: container for container in self.pod["containers"]}
        self.engine = containers.pop("engine")
        self.sidecars = containers
        self.env = {one["name"]: one.get("value", one.get("valueFrom")) for one in self.engine["env"]}
        self.volumes = {
            one["name"]: {key: value for key, value in one.items() if key != "name"}
            for one in self.pod["volumes"]
        }
        self.mounts = {one["mountPath"]: one["name"] for one in self.engine["volumeMounts"]}

    def __getitem__(self, kind: str) -> dict[str, Any]:
        return self.by_kind[kind]

    def flag(self, name: str) -> list[str]:
        """The values of a flag of the engine, as they stand after it."""
        args = self.engine["args"]
        for number, argument in enumerate(args):
            if argument.startswith(f"{name}="):
                return [argument.partition("=")[2]]
            if argument == name:
                rest = args[number + 1 :]
                end = next((place for place, one in enumerate(rest) if one.startswith("--")), len(rest))
                return list(rest[:end])
        raise AssertionError(f"no {name} in {args}")

    @property
    def trigger(self) -> dict[str, Any]:
        return dict(self["ScaledObject"]["triggers"][0])

    @property
    def object_metric(self) -> tuple[str, str]:
        metric = self["HorizontalPodAutoscaler"]["metrics"][0]["object"]
        return metric["metric"]["name"], metric["target"]["averageValue"]

    @property
    def fetched(self) -> str:
        """The source as the job is told it."""
        args = self.job["containers"][0]["args"]
        return str(args[args.index("--source") + 1])

    @property
    def job_secrets(self) -> dict[str, Any]:
        return {one["name"]: one["secret"] for one in self.job["volumes"] if "secret" in one}
