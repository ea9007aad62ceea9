"""Who else scales, who serves the metrics, and an APIService that leads nowhere: against a small HTTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from llmservice_operator.live import scaling
from llmservice_operator.live.client import Client
from llmservice_operator.live.scaling import Scaling

from tests.operator.desired import world

APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Api:
    """Objects by path; what is not here is 404."""

    objects: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    forbids: bool = False

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path))
        if self.forbids:
            return web.json_response({"message": "no right"}, status=403)
        found = self.objects.get(request.path)
        if found is not None and request.method == "DELETE":
            del self.objects[request.path]
        return web.json_response(found or {"message": "not found"}, status=200 if found else 404)


@pytest.fixture
async def at() -> AsyncIterator[tuple[Api, Client]]:
    api, app = Api(), web.Application()
    app.router.add_route("*", "/{rest:.*}", api.answer)
    running = TestServer(app)
    await running.start_server()
    async with aiohttp.ClientSession() as session:
        yield api, Client(session, str(running.make_url("/")))
    await running.close()


def scaler(name: str, target: str = "llama", kind: str = "Deployment", owner: str = "") -> dict[str, Any]:
    owners = [{"kind": "ScaledObject", "name": owner, "controller": True}] if owner else []
    return {
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"scaleTargetRef": {"kind": kind, "name": target}},
    }


def apiservice(
    version: str, since: datetime, managed: bool = True, available: str = "False"
) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "llmservice-operator" if managed else "somebody"}
    condition = {"type": "Available", "status": available, "lastTransitionTime": since.isoformat()}
    metadata = {"name": f"{version}.custom.metrics.k8s.io", "uid": f"uid-{version}", "labels": labels}
    return {"metadata": metadata, "status": {"conditions": [condition]}}


async def test_other_autoscalers_are_asked_for_once_replicas_have_changed_under_us(
    at: tuple[Api, Client],
) -> None:
    api, client = at
    now = 1000.0
    wanted = world.wanted(replicas=2)
    deployment = world.rendered(wanted, world.seen())["Deployment"]
    ours = world.seen(deployment)
    theirs = world.seen({**deployment, "spec": {**deployment["spec"], "replicas": 5}})
    listed = f"/apis/autoscaling/v2/namespaces/{wanted.namespace}/horizontalpodautoscalers"
    items = [
        scaler("mine"),
        scaler("keda-hpa-x", owner="x"),
        scaler("no", "other"),
        scaler("no", kind="ReplicaSet"),
    ]
    api.objects[listed] = {"items": items}
    scales = Scaling(client, lambda: now)

    assert await scales.rivals(wanted, ours) == ()
    assert not api.asked, "where nobody touches the replicas nobody is asked"
    expected = ('HorizontalPodAutoscaler "mine"', 'ScaledObject "x"')
    assert await scales.rivals(wanted, theirs) == expected
    assert await scales.rivals(wanted, ours) == expected, "our own write has put them back meanwhile"
    now += scaling.SUSPECT
    assert await scales.rivals(wanted, ours) == ()
    said = {"conditions": [{"type": "AutoscalingActive", "reason": "ReplicasContested"}]}
    assert await scales.rivals(wanted, replace(ours, status=said)) == expected, "until they are gone"
    api.forbids = True
    assert await scales.rivals(wanted, theirs) == ()


async def test_replicas_that_the_spec_does_not_set_are_anybodys(at: tuple[Api, Client]) -> None:
    api, client = at
    for fields in ({"replicas": None}, {"replicas": None, "autoscaling": {"maxReplicas": 3}}):
        wanted = world.wanted(**fields)
        deployment = world.rendered(wanted, world.seen())["Deployment"]
        assert await Scaling(client).rivals(wanted, world.seen(deployment)) == ()
    assert not api.asked


async def test_who_serves_the_metrics_is_asked_seldom_and_no_right_is_no_fault(
    at: tuple[Api, Client],
) -> None:
    api, client = at
    now = 1000.0
    scales = Scaling(client, lambda: now)
    assert await scales.group() == ()
    api.objects[f"{APISERVICES}/v1beta1.custom.metrics.k8s.io"] = found = apiservice("v1beta1", NOON)
    assert await scales.group() == ()
    now += scaling.KEPT
    assert await scales.group() == (found,)
    api.forbids = True
    now += scaling.KEPT
    assert await scales.group() is None


async def test_only_what_is_ours_and_has_been_dead_for_long_is_removed(at: tuple[Api, Client]) -> None:
    api, client = at
    long_ago, just_now = NOON - timedelta(seconds=scaling.DEAD), NOON - timedelta(seconds=scaling.DEAD - 1)
    names = {version: f"{APISERVICES}/{version}.custom.metrics.k8s.io" for version in ("v1beta1", "v1beta2")}
    for kept in (
        apiservice("v1beta1", just_now),
        apiservice("v1beta1", long_ago, managed=False),
        apiservice("v1beta1", long_ago, available="True"),
    ):
        api.objects = {names["v1beta1"]: kept, names["v1beta2"]: apiservice("v1beta2", long_ago)}
        await scaling.remove_dead(client, NOON)
        assert api.objects == {names["v1beta1"]: kept}
    api.forbids = True
    await scaling.remove_dead(client, NOON)
