"""What is answered to whom, over real TLS with real certificates."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from llmservice_operator.live.client import Client
from llmservice_operator.metrics_api import reviews

from e2e.cluster import pki
from tests.operator.metrics_api.conftest import Front, Judge

ROOT = "/apis/custom.metrics.k8s.io"
CHAT = f"{ROOT}/v1beta2/namespaces/ns/llmservices.serving.llmservice.dev/chat"
HPA = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_discovery_is_for_the_aggregator_that_comes_without_groups(front: Front, version: str) -> None:
    status, found = await front.proxied(f"{ROOT}/{version}", "system:kube-aggregator")
    assert (status, found["kind"], found["groupVersion"]) == (
        200,
        "APIResourceList",
        f"custom.metrics.k8s.io/{version}",
    )
    assert {one["name"] for one in found["resources"]} == {
        f"llmservices.serving.llmservice.dev/{metric}"
        for metric in ("num_requests_waiting", "num_requests_in_flight", "kv_cache_usage_percent")
    }
    assert all(one["namespaced"] and one["verbs"] == ["get"] for one in found["resources"])
    assert not front.judge.reviewed, "discovery asks nobody"


async def test_the_group_and_the_groups_name_the_preferred_version(front: Front) -> None:
    _, group = await front.proxied(ROOT, "system:kube-aggregator")
    _, groups = await front.proxied("/apis", "system:kube-aggregator")
    assert group["preferredVersion"]["version"] == "v1beta2"
    assert [found["name"] for found in groups["groups"]] == ["custom.metrics.k8s.io"]


async def test_the_autoscaler_gets_exactly_one_item(front: Front) -> None:
    front.engine("1")
    front.engine("2")
    status, found = await front.proxied(f"{CHAT}/num_requests_in_flight", HPA, "system:serviceaccounts")
    assert status == 200
    (item,) = found["items"]
    assert item["value"] == "10"
    assert item["timestamp"].endswith("Z")
    (asked,) = front.judge.of("SubjectAccessReview")
    assert asked["resourceAttributes"] == {
        "namespace": "ns",
        "verb": "get",
        "group": "custom.metrics.k8s.io",
        "version": "v1beta2",
        "resource": "llmservices.serving.llmservice.dev",
        "subresource": "num_requests_in_flight",
        "name": "chat",
    }
    assert asked["groups"] == ["system:serviceaccounts", "system:authenticated"]


async def test_a_right_is_asked_for_once_and_stands_for_a_while(front: Front) -> None:
    front.engine()
    for _ in range(5):
        assert (await front.proxied(f"{CHAT}/num_requests_waiting", HPA))[0] == 200
    assert len(front.judge.of("SubjectAccessReview")) == 1


async def test_pods_of_which_fewer_than_half_answer_make_an_error_and_no_figure(front: Front) -> None:
    front.engine("1")
    for number in (2, 3):
        front.engine(str(number), address=f"127.0.0.{number}")  # nobody listens there
    status, found = await front.proxied(f"{CHAT}/num_requests_waiting", HPA)
    assert (status, found["kind"], found["reason"]) == (503, "Status", "ServiceUnavailable")
    assert "1 of 3 ready pods answer" in found["message"]


@pytest.mark.parametrize(
    ("path", "code", "reason"),
    [
        (f"{CHAT}/num_requests_waiting", 404, "NotFound"),  # no pod
        (f"{CHAT}/http_requests", 404, "NotFound"),
        (f"{CHAT.replace('chat', '*')}/num_requests_waiting", 400, "BadRequest"),
        (f"{CHAT}/num_requests_waiting?metricLabelSelector=a%3Db", 400, "BadRequest"),
        (f"{ROOT}/v1beta2/namespaces/ns/pods/chat/num_requests_waiting", 404, "NotFound"),
        (f"{ROOT}/v1/namespaces/ns/pods/chat/num_requests_waiting", 404, "NotFound"),
        (f"{ROOT}/v1beta3", 404, "NotFound"),
        ("/openapi/v2", 404, "NotFound"),
        ("/", 404, "NotFound"),
    ],
)
async def test_everything_else_is_refused_as_a_status(
    front: Front, path: str, code: int, reason: str
) -> None:
    status, found = await front.proxied(path, HPA)
    assert (status, found["kind"], found["code"], found["reason"]) == (code, "Status", code, reason)


async def test_nothing_can_be_written(front: Front) -> None:
    status, found = await front.get(ROOT, front.tls(front.proxy_authority), "POST", X_Remote_User=HPA)
    assert (status, found["reason"]) == (405, "MethodNotAllowed")


async def test_who_may_not_read_is_told_so_before_anything_else(front: Front) -> None:
    status, found = await front.proxied(f"{CHAT}/num_requests_waiting", "somebody")
    assert (status, found["reason"]) == (403, "Forbidden")
    assert 'User "somebody"' in found["message"]


async def test_while_the_api_server_does_not_say_nobody_reads(front: Front) -> None:
    front.engine()
    front.judge.down = True
    status, found = await front.proxied(f"{CHAT}/num_requests_waiting", HPA)
    assert (status, found["kind"]) == (503, "Status")
    front.judge.down = False
    assert (await front.proxied(f"{CHAT}/num_requests_waiting", HPA))[0] == 200


# --- who is believed ------------------------------------------------------------------------------------------
async def test_the_headers_of_a_stranger_count_for_nothing(front: Front) -> None:
    front.engine()
    for path in (ROOT, f"{CHAT}/num_requests_waiting", "/nothing"):
        status, found = await front.get(path, front.tls(), X_Remote_User=HPA)
        assert (status, found["kind"], found["reason"]) == (401, "Status", "Unauthorized")
    assert not front.judge.reviewed, "and cost nothing"


async def test_a_certificate_of_the_authority_with_another_name_is_no_front_proxy(front: Front) -> None:
    tls = front.tls(front.proxy_authority, "somebody-else")
    assert (await front.get(ROOT, tls, X_Remote_User=HPA))[0] == 401


async def test_a_front_proxy_that_names_nobody_is_nobody(front: Front) -> None:
    assert (await front.get(ROOT, front.tls(front.proxy_authority)))[0] == 401


async def test_a_certificate_of_another_authority_fails_the_handshake(front: Front) -> None:
    with pytest.raises((aiohttp.ClientError, OSError)):
        await front.get(ROOT, front.tls(pki.authority("another")), X_Remote_User=HPA)


async def test_a_token_is_looked_up_and_then_judged_like_anybody(front: Front) -> None:
    front.engine()
    waiting = f"{CHAT}/num_requests_waiting"
    assert (await front.get(waiting, front.tls(), Authorization="Bearer good"))[0] == 403
    front.judge.allowed.add("somebody-new")
    front.judge.tokens["better"] = {"username": "somebody-new"}
    assert (await front.get(waiting, front.tls(), Authorization="Bearer better"))[0] == 200
    assert (await front.get(ROOT, front.tls(), Authorization="Bearer good"))[0] == 200
    assert (await front.get(ROOT, front.tls(), Authorization="Bearer bad"))[0] == 401
    assert (await front.get(ROOT, front.tls(), Authorization="Basic good"))[0] == 401
    assert len(front.judge.of("TokenReview")) == 3


async def test_a_flood_of_new_tokens_is_no_flood_on_the_api_server(judge: tuple[Judge, TestServer]) -> None:
    says, server = judge
    now = 100.0
    async with aiohttp.ClientSession() as session:
        asks = reviews.Reviews(Client(session, str(server.make_url("/"))), lambda: now)
        found = await asyncio.gather(
            *(asks.caller(str(number)) for number in range(100)), return_exceptions=True
        )
        refused = [one for one in found if isinstance(one, reviews.TooManyTokens)]
        assert len(says.of("TokenReview")) == reviews.TOKENS_A_SECOND == 100 - len(refused)
        now += 1.0
        good = await asks.caller("good")
        assert good is not None
        assert good.user == "somebody"


async def test_too_many_tokens_are_told_to_come_later_and_the_api_server_is_served(front: Front) -> None:
    answers = await asyncio.gather(
        *(front.get(ROOT, front.tls(), Authorization=f"Bearer {number}") for number in range(40))
    )
    assert {status for status, _ in answers} <= {401, 429}
    assert all(body["kind"] == "Status" for _, body in answers)
    assert (await front.proxied(ROOT, "system:kube-aggregator"))[0] == 200
