"""The children around the workload: when there is one, and what it says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from llmservice_operator.api import contract, names, scaling
from llmservice_operator.desired import autoscaler, extras
from llmservice_operator.live import kinds

from tests.operator.desired import world

EVERYTHING = frozenset(kind.kind for kind in kinds.ALL)
KUBERNETES_ONLY = frozenset(kind.kind for kind in kinds.REQUIRED)
ROUTE = {"route": {"parentRefs": [{"name": "gate", "namespace": "gateways", "sectionName": "https"}]}}
KEDA = {
    "backend": "KEDA",
    "maxReplicas": 4,
    "keda": {"prometheusAddress": "http://prometheus.monitoring:9090"},
}
HUB = {"model": {"source": {"hf": {"repo": "org/chat"}}}}


def children(served: frozenset[str] = EVERYTHING, **fields: Any) -> dict[str, dict[str, Any]]:
    made = extras.children(world.wanted(**fields), served, "llm-system")
    return {child["kind"]: child for child in made}


THERE: dict[str, tuple[dict[str, Any], set[str]]] = {
    "one replica": ({"replicas": 1}, {"PodMonitor"}),
    "two replicas": ({"replicas": 2}, {"PodMonitor", "PodDisruptionBudget"}),
    "two replicas, suspended": ({"replicas": 2, "suspend": True}, {"PodMonitor"}),
    "autoscaling": (
        {"autoscaling": {"maxReplicas": 2}},
        {"PodMonitor", "PodDisruptionBudget", "HorizontalPodAutoscaler"},
    ),
    "autoscaling to one": ({"autoscaling": {"maxReplicas": 1}}, {"PodMonitor", "HorizontalPodAutoscaler"}),
    "autoscaling, suspended": ({"autoscaling": {"maxReplicas": 2}, "suspend": True}, {"PodMonitor"}),
    "autoscaling by KEDA": ({"autoscaling": KEDA}, {"PodMonitor", "PodDisruptionBudget", "ScaledObject"}),
    "autoscaling by KEDA, suspended": ({"autoscaling": KEDA, "suspend": True}, {"PodMonitor"}),
    "autoscaling by something else": (
        {"autoscaling": {"maxReplicas": 4, "backend": "External"}},
        {"PodMonitor", "PodDisruptionBudget"},
    ),
    "a network policy": ({"networkPolicy": {"enabled": True}}, {"PodMonitor", "NetworkPolicy"}),
    "a route": ({"expose": ROUTE}, {"PodMonitor", "HTTPRoute"}),
    "no monitor": ({"monitoring": {"podMonitor": "Disabled"}}, set()),
    "a monitor": ({"monitoring": {"podMonitor": "Enabled"}}, {"PodMonitor"}),
}


@pytest.mark.parametrize(("fields", "there"), THERE.values(), ids=THERE.keys())
def test_children_are_those_that_the_spec_asks_for(fields: dict[str, Any], there: set[str]) -> None:
    assert set(children(**fields)) == there


def test_every_extra_child_is_owned_labelled_and_named_after_the_object() -> None:
    fields = {"autoscaling": {"maxReplicas": 2}, "networkPolicy": {"enabled": True}, "expose": ROUTE}
    made = children(**fields) | children(autoscaling=KEDA)
    assert len(made) == 6
    for child in made.values():
        metadata = child["metadata"]
        assert (metadata["name"], metadata["namespace"]) == ("llama", "team")
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["u-1"]
        assert metadata["labels"] == names.labels("llama")


def test_every_extra_child_is_of_a_kind_that_is_watched_and_written_in_that_version() -> None:
    fields = {"autoscaling": {"maxReplicas": 2}, "networkPolicy": {"enabled": True}, "expose": ROUTE}
    for kind, child in (children(**fields) | children(autoscaling=KEDA)).items():
        assert child["apiVersion"] == kinds.CHILDREN[kind].api_version


def test_the_optional_kinds_are_the_same_where_they_are_rendered_and_where_they_are_watched() -> None:
    assert {kind.kind for kind in kinds.OPTIONAL} == extras.OPTIONAL


# --- kinds that a cluster lacks ------------------------------------------------------------------------------
LACKING: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "nothing asked": ({}, ()),
    "a monitor": ({"monitoring": {"podMonitor": "Enabled"}}, ("PodMonitor",)),
    "a route": ({"expose": ROUTE}, ("HTTPRoute",)),
    "KEDA": ({"autoscaling": KEDA}, ("ScaledObject",)),
    "KEDA, suspended": ({"autoscaling": KEDA, "suspend": True}, ()),
    "a route and a monitor": (
        {"expose": ROUTE, "monitoring": {"podMonitor": "Enabled"}},
        ("HTTPRoute", "PodMonitor"),
    ),
}


@pytest.mark.parametrize(("fields", "lacking"), LACKING.values(), ids=LACKING.keys())
def test_what_is_asked_for_and_not_served_is_left_out_and_told(
    fields: dict[str, Any], lacking: tuple[str, ...]
) -> None:
    assert extras.lacking(world.wanted(**fields), KUBERNETES_ONLY) == lacking
    assert extras.OPTIONAL.isdisjoint(children(KUBERNETES_ONLY, **fields))
    assert extras.lacking(world.wanted(**fields), EVERYTHING) == ()


# --- autoscaling ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("metric", scaling.TARGETS)
def test_autoscaler_keeps_the_replicas_average_of_one_metric_of_the_object_at_the_target(
    metric: scaling.Metric,
) -> None:
    spec = children(autoscaling={"minReplicas": 2, "maxReplicas": 5, "metric": metric})[
        "HorizontalPodAutoscaler"
    ]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 5)
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama"}
    (one,) = spec["metrics"]
    assert one["object"]["describedObject"] == {
        "apiVersion": "serving.llmservice.dev/v1alpha1",
        "kind": "LLMService",
        "name": "llama",
    }
    assert one["object"]["metric"]["name"] == contract.SCALING_METRICS[metric]
    assert one["object"]["target"] == {
        "type": "AverageValue",
        "averageValue": str(scaling.TARGETS[metric]),
    }


def test_target_that_is_given_counts() -> None:
    made = children(autoscaling={"maxReplicas": 5, "target": 3})["HorizontalPodAutoscaler"]
    assert made["spec"]["metrics"][0]["object"]["target"]["averageValue"] == "3"


CALM = {"stabilizationWindowSeconds": 300}
AT_ONCE = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max"}
POLICY = {"type": "Pods", "value": 1, "periodSeconds": 60}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"scaleUp": AT_ONCE, "scaleDown": CALM}),
        ({"scaleUp": {}}, {"scaleUp": AT_ONCE, "scaleDown": CALM}),
        ({"scaleDown": {"policies": [POLICY]}}, {"scaleUp": AT_ONCE, "scaleDown": {"policies": [POLICY]}}),
        (
            {"scaleUp": {"selectPolicy": "Disabled"}},
            {"scaleUp": {"selectPolicy": "Disabled"}, "scaleDown": CALM},
        ),
        (
            {"scaleDown": {"stabilizationWindowSeconds": 0}},
            {"scaleUp": AT_ONCE, "scaleDown": {"stabilizationWindowSeconds": 0}},
        ),
    ],
)
def test_a_direction_of_the_behavior_is_the_given_one_or_comes_at_once_and_goes_slowly(
    given: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    more = {} if given is None else {"behavior": given}
    hpa = children(autoscaling={"maxReplicas": 5} | more)["HorizontalPodAutoscaler"]
    keda = children(autoscaling=KEDA | more)["ScaledObject"]
    assert hpa["spec"]["behavior"] == expected
    assert keda["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == expected


@pytest.mark.parametrize(
    ("metric", "series"),
    [
        ("WaitingRequests", {"vllm:num_requests_waiting"}),
        ("InFlightRequests", {"vllm:num_requests_waiting", "vllm:num_requests_running"}),
        ("KVCachePercent", {"vllm:kv_cache_usage_perc"}),
    ],
)
def test_keda_asks_prometheus_for_the_total_of_the_services_pods(metric: str, series: set[str]) -> None:
    spec = children(autoscaling=KEDA | {"metric": metric, "target": 7})["ScaledObject"]["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, 4)
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "prometheus"
    assert trigger["metadata"]["serverAddress"] == "http://prometheus.monitoring:9090"
    assert trigger["metadata"]["threshold"] == "7"
    asked = re.findall(r'sum\((vllm:\w+)\{namespace="team",pod=~"([^"]+)"\}\)', trigger["metadata"]["query"])
    assert {name for name, _ in asked} == series


def test_keda_triggers_that_are_given_are_passed_on() -> None:
    trigger = {"type": "cron", "metadata": {"start": "0 8 * * *"}, "useCachedMetrics": True}
    given = {"backend": "KEDA", "minReplicas": 0, "maxReplicas": 2, "keda": {"triggers": [trigger]}}
    spec = children(autoscaling=given)["ScaledObject"]["spec"]
    assert spec["triggers"] == [trigger]
    assert spec["minReplicaCount"] == 0


@pytest.mark.parametrize(
    ("deployment", "pod", "matches"),
    [
        ("chat", "chat-5d4f8c7b9d-x2x4z", True),
        ("chat", "chat-two-5d4f8c7b9d-x2x4z", False),
        ("chat", "mychat-5d4f8c7b9d-x2x4z", False),
        ("a" * 46, "a" * 46 + "-5d4f8c7b9d-x2x4z", True),
        ("a" * 50, "a" * 50 + "-5d4f8c7x2x4z", True),
        ("a" * 63, "a" * 58 + "x2x4z", True),
    ],
)
def test_pods_are_told_by_name_even_where_kubernetes_cuts_it(
    deployment: str, pod: str, matches: bool
) -> None:
    assert bool(re.fullmatch(autoscaler.pod_pattern(deployment), pod)) is matches


# --- disruption, network, monitor, route ---------------------------------------------------------------------
@pytest.mark.parametrize("most", [1, 0, "30%"])
def test_a_drain_takes_as_many_replicas_as_the_spec_allows_and_any_that_are_not_ready(
    most: int | str,
) -> None:
    spec = children(replicas=3, availability={"maxUnavailable": most})["PodDisruptionBudget"]["spec"]
    assert spec["maxUnavailable"] == most
    assert spec["selector"]["matchLabels"] == names.selector("llama")
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_network_policy_lets_in_the_namespace_the_operator_and_the_named_peers_on_the_http_port() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"team": "gateway"}}}
    spec = children(networkPolicy={"enabled": True, "from": [peer]})["NetworkPolicy"]["spec"]
    operator = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "llm-system"}}}
    assert spec["podSelector"]["matchLabels"] == names.selector("llama")
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = spec["ingress"]
    assert rule["from"] == [{"podSelector": {}}, operator, peer]
    assert rule["ports"] == [{"port": "http", "protocol": "TCP"}]


FETCHES: dict[str, tuple[dict[str, Any], str | None, list[int]]] = {
    "weights on a claim": ({}, None, []),
    "prefetched": (HUB, None, []),
    "the hub": (HUB | {"cache": {"mode": "None"}}, None, [443]),
    "a claim without prefetch": (HUB | {"cache": {"prefetch": False}}, None, [443]),
    "a mirror": (
        {"model": {"source": {"hf": {"repo": "a/b", "endpoint": "http://mirror:8080/hf"}}}}
        | {"cache": {"mode": "None"}},
        "https://other:9000",
        [443, 8080],
    ),
    "the operator's mirror": (HUB | {"cache": {"mode": "None"}}, "http://mirror", [80, 443]),
    "a bucket": (
        {"model": {"source": {"s3": {"uri": "s3://models/chat", "endpoint": "https://minio:9000"}}}}
        | {"cache": {"mode": "Ephemeral"}},
        "http://mirror",
        [443, 9000],
    ),
}


@pytest.mark.parametrize(("fields", "mirror", "ports"), FETCHES.values(), ids=FETCHES.keys())
def test_engines_reach_names_each_other_and_what_they_fetch_the_model_from(
    fields: dict[str, Any], mirror: str | None, ports: list[int]
) -> None:
    wanted = world.wanted(networkPolicy={"enabled": True}, **fields)
    (policy, *_) = extras.children(wanted, KUBERNETES_ONLY, "llm-system", mirror)
    dns, own, *fetch = policy["spec"]["egress"]
    assert {(port["port"], port["protocol"]) for port in dns["ports"]} == {(53, "UDP"), (53, "TCP")}
    assert own == {"to": [{"podSelector": {"matchLabels": names.selector("llama")}}]}
    assert [port["port"] for rule in fetch for port in rule["ports"]] == ports


def test_the_monitors_own_labels_win_over_those_given() -> None:
    given = {"release": "prometheus", names.MANAGED_BY_LABEL: "somebody"}
    made = children(monitoring={"labels": given})["PodMonitor"]
    assert made["metadata"]["labels"] == {"release": "prometheus"} | names.labels("llama")
    assert made["spec"]["podMetricsEndpoints"] == [{"path": "/metrics", "port": "http"}]


def test_route_leads_to_the_service_and_never_cuts_a_stream() -> None:
    expose = {"service": {"name": "web", "port": 80}} | ROUTE
    expose["route"] = ROUTE["route"] | {"hostnames": ["chat.example.org"]}
    spec = children(expose=expose)["HTTPRoute"]["spec"]
    assert spec["parentRefs"] == [{"name": "gate", "namespace": "gateways", "sectionName": "https"}]
    assert spec["hostnames"] == ["chat.example.org"]
    assert spec["rules"] == [{"backendRefs": [{"name": "web", "port": 80}], "timeouts": {"request": "0s"}}]
