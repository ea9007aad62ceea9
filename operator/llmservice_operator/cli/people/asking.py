"""What a preflight asks a cluster. What the person may not read cannot be told, and is no failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from llmservice_operator.api import names, quantities
from llmservice_operator.api.spec import LLMService
from llmservice_operator.cli.people import references, rehearsal, trials
from llmservice_operator.cli.people.answers import BadInput
from llmservice_operator.cli.people.cluster import Cluster
from llmservice_operator.cli.people.findings import Finding, Level, fail, ok, warn
from llmservice_operator.cli.people.references import Reference
from llmservice_operator.cli.people.trials import untold
from llmservice_operator.desired import extras, placement
from llmservice_operator.live import discovery, kinds
from llmservice_operator.live.client import ApiError

Body = dict[str, Any]
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


async def everything(
    there: Cluster, body: Mapping[str, Any], wanted: LLMService, children: Sequence[Body]
) -> list[Finding]:
    """``children``: as they would be rendered.

    Raises:
        BadInput: the cluster does not answer.
    """
    first = await _dry_run(there, body)
    if first.level is Level.OK:
        return [
            first,
            *await trials.children(there, wanted, children),
            *await _needs(there, wanted, children),
        ]
    return [first, *await _needs(there, wanted, children)]


async def _needs(there: Cluster, wanted: LLMService, children: Sequence[Body]) -> list[Finding]:
    found = [await _exists(there, wanted, one) for one in references.of(wanted)]
    if (stored := await _storage(there, wanted)) is not None:
        found.append(stored)
    found += await _kinds(there, wanted)
    if wanted.spec.accelerator.count and not wanted.spec.suspend:
        found.append(await _devices(there, wanted, rehearsal.pod_of(children)))
    return found


async def _dry_run(there: Cluster, body: Mapping[str, Any]) -> Finding:
    try:
        await there.try_out(body)
    except ApiError as error:
        if error.code is None:
            raise BadInput(error.message) from None
        if error.code == 404 and "namespaces" in error.message:
            return fail(
                "namespace", error.message, f"kubectl create namespace {body['metadata']['namespace']}"
            )
        if error.code == 404:
            return fail(
                "CRD", f"the cluster does not serve {names.PLURAL}.{names.GROUP}", "install the chart first"
            )
        if error.code in (401, 403):
            return untold("dry run", error)
        return fail("dry run", error.message)
    return ok("dry run", "the API server takes it")


async def _exists(there: Cluster, wanted: LLMService, one: Reference) -> Finding:
    about = f"{one.kind} {one.name}"
    try:
        body = await there.get(references.PATHS[one.kind].format(wanted.namespace, one.name))
    except ApiError as error:
        if error.code != 404:
            return untold(about, error)
        if one.optional:
            return warn(about, f"is not there; {one.where} says that it need not be")
        return fail(
            about,
            f"is not in namespace {wanted.namespace}, and {one.where} names it",
            "create it, or name another",
        )
    if one.kind == "PersistentVolumeClaim":
        return _claim(wanted, about, body)
    held = {**(body.get("data") or {}), **(body.get("binaryData") or {})}
    lacking = [key for key in one.keys if key not in held]
    if lacking and not one.optional:
        there_are = ", ".join(sorted(held)) or "none"
        return fail(
            about,
            f"has no key {lacking[0]}, which {one.where} names; it has {there_are}",
            "name one of these",
        )
    return ok(about, f"is there ({one.where})")


def _claim(wanted: LLMService, about: str, body: Body) -> Finding:
    phase = (body.get("status") or {}).get("phase", "Pending")
    modes = (body.get("spec") or {}).get("accessModes") or ()
    scaled = wanted.spec.autoscaling
    most = scaled.max_replicas if scaled is not None else wanted.spec.replicas or 1
    if phase == "Lost":
        return fail(about, "has lost its volume", "restore it, or name another claim")
    if most > 1 and not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
        return warn(
            about,
            f"is {', '.join(modes)}: {most} replicas must all be on one node",
            "a ReadWriteMany claim lets them spread",
        )
    return ok(about, f"is {phase} ({', '.join(modes)})")


async def _storage(there: Cluster, wanted: LLMService) -> Finding | None:
    """The class of the claim that would be made."""
    cache = wanted.cache
    if cache is None or cache.mode not in ("Managed", "Ephemeral"):
        return None
    name = cache.storage_class_name
    path = "/apis/storage.k8s.io/v1/storageclasses"
    try:
        if name is not None:
            await there.get(f"{path}/{name}")
            return ok(f"StorageClass {name}", "is there")
        classes = await there.all(path)
    except ApiError as error:
        if error.code == 404:
            return fail(
                f"StorageClass {name}",
                "is not there, and spec.cache.storageClassName names it",
                "kubectl get storageclass lists them",
            )
        return untold(f"StorageClass {name or '(default)'}", error)
    defaults = [
        one["metadata"]["name"]
        for one in classes
        if (one["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    ]
    if defaults:
        return ok("StorageClass", f"{defaults[0]} is the cluster's default")
    there_are = ", ".join(one["metadata"]["name"] for one in classes) or "none at all"
    return warn(
        "StorageClass",
        f"the cluster has no default (there are: {there_are})",
        "name one in spec.cache.storageClassName, unless the chart's values do",
    )


async def _kinds(there: Cluster, wanted: LLMService) -> list[Finding]:
    asked = extras.lacking(wanted, frozenset())
    found = []
    for kind in kinds.OPTIONAL:
        if kind.kind not in asked:
            continue
        about = f"kind {kind.kind}"
        try:
            served = await discovery.is_served(there.client, kind)
        except ApiError as error:
            found.append(untold(about, error))
            continue
        group = f"{kind.plural}.{kind.group}/{kind.version}"
        found.append(
            ok(about, "is served")
            if served
            else fail(about, f"the cluster does not serve {group}", "install it, or leave the field out")
        )
    return found


# --- devices -------------------------------------------------------------------------------------------------
async def _devices(there: Cluster, wanted: LLMService, pod: Body) -> Finding:
    device = wanted.spec.accelerator
    about, each = device.resource_name, f"{device.count} {device.resource_name}"
    try:
        nodes, pods = await there.all("/api/v1/nodes"), await there.all("/api/v1/pods")
    except ApiError as error:
        return untold(about, error)
    replicas = wanted.least_replicas if wanted.least_replicas is not None else 1
    most = max((_offered(node, device.resource_name) for node in nodes), default=Fraction(0))
    if most == 0:
        return warn(about, "no node offers it now", "a device plugin or a node autoscaler must bring it")
    if most < device.count:
        return warn(
            about,
            f"one replica wants {device.count}, and no node has more than {most}",
            "lower accelerator.count",
        )
    free = placement.room(nodes, _of_others(pods, wanted), pod)
    if free < replicas:
        return warn(
            about,
            f"{replicas} replicas want {each} each, and the nodes have room for {free} now",
            "the others wait for room",
        )
    return ok(about, f"the nodes have room for {free} replicas of {each}, {replicas} wanted")


def _offered(node: Body, resource: str) -> Fraction:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return quantities.parse(allocatable.get(resource, 0))


def _of_others(pods: Iterable[Body], wanted: LLMService) -> list[Body]:
    """Without this object's own: what they hold is theirs already."""
    ours = names.selector(wanted.name).items()
    return [
        pod
        for pod in pods
        if pod["metadata"].get("namespace") != wanted.namespace
        or not ours <= (pod["metadata"].get("labels") or {}).items()
    ]
