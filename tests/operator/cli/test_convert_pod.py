"""Hand-written Deployments of vLLM: devices, time, what stands around them, and all that is left of the pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.cli.person import HUB, Body, converts, deployment, scaler, service

GPU = {"limits": {"nvidia.com/gpu": 1}}


# --- devices, memory, time -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("resources", "accelerator"),
    [
        (GPU, {"count": 1, "resourceName": "nvidia.com/gpu"}),
        ({"requests": {"amd.com/gpu": "4"}}, {"count": 4, "resourceName": "amd.com/gpu"}),
        ({"limits": {"nvidia.com/mig-1g.10gb": 1}}, {"count": 1, "resourceName": "nvidia.com/mig-1g.10gb"}),
        ({"limits": {"cpu": 8}}, {"count": 0}),
        (None, {"count": 0}),
    ],
)
def test_devices_are_counted_by_the_accelerator(resources: Body | None, accelerator: Body) -> None:
    made = converts(deployment(c_resources=resources))
    assert made.spec["accelerator"] == accelerator


def test_other_resources_stay_resources() -> None:
    given = {
        "limits": {"nvidia.com/gpu": 8, "rdma/hca": 1, "memory": "64Gi"},
        "requests": {"ephemeral-storage": "1Gi"},
    }
    made = converts(deployment(c_resources=given))
    assert made.spec["resources"] == {
        "limits": {"rdma/hca": 1, "memory": "64Gi"},
        "requests": {"ephemeral-storage": "1Gi"},
    }


@pytest.mark.parametrize(
    ("probes", "deadline"),
    [
        ({"c_startupProbe": {"failureThreshold": 60}}, "600s"),
        ({"c_livenessProbe": {"initialDelaySeconds": 240, "periodSeconds": 5}}, "255s"),
        ({"c_startupProbe": {"failureThreshold": 90_000}}, "86400s"),
        ({"c_readinessProbe": {"initialDelaySeconds": 120}}, None),
    ],
)
def test_the_time_that_probes_gave_a_start_is_its_deadline(probes: Body, deadline: str | None) -> None:
    assert converts(deployment(**probes)).spec.get("startup", {}).get("deadline") == deadline


def test_the_drain_has_what_the_grace_period_leaves() -> None:
    made = converts(
        deployment(
            terminationGracePeriodSeconds=120, c_lifecycle={"preStop": {"exec": {"command": ["sleep", "10"]}}}
        )
    )
    assert made.spec["rollout"] == {"drainTimeout": "100s"}
    assert "lifecycle" not in made.engine_part
    assert made.lost == ""


@pytest.mark.parametrize(
    ("strategy", "rollout"),
    [
        ({"type": "Recreate"}, {"strategy": "Recreate"}),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, {"strategy": "Recycle"}),
        (
            {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}},
            {"strategy": "Surge", "maxSurge": 2, "maxUnavailable": 0},
        ),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, None),
        (None, None),
    ],
)
def test_the_strategy_is_kept_where_somebody_chose_it(strategy: Body | None, rollout: Body | None) -> None:
    body = deployment()
    body["spec"]["strategy"] = strategy
    assert converts(body).spec.get("rollout") == rollout


# --- what stands around --------------------------------------------------------------------------------------
def test_a_service_keeps_name_type_port_and_annotations_and_says_what_it_loses() -> None:
    front = service(
        {"port": 80, "targetPort": 8000, "nodePort": 30080},
        {"name": "metrics", "port": 9090},
        type="LoadBalancer",
        loadBalancerSourceRanges=["10.0.0.0/8"],
    )
    front["metadata"]["annotations"] = {"cloud/internal": "true"}
    made = converts(deployment(), front)
    assert made.spec["expose"]["service"] == {
        "name": "front",
        "type": "LoadBalancer",
        "port": 80,
        "annotations": {"cloud/internal": "true"},
    }
    for lost in ("nodePort: 30080", "ports[metrics]", "loadBalancerSourceRanges[0]: 10.0.0.0/8"):
        assert lost in made.lost


@pytest.mark.parametrize(
    ("metric", "ours", "target"),
    [
        (
            {
                "type": "Pods",
                "pods": {"metric": {"name": "vllm:num_requests_waiting"}, "target": {"averageValue": "5"}},
            },
            "WaitingRequests",
            5,
        ),
        (
            {
                "type": "Pods",
                "pods": {"metric": {"name": "vllm_num_requests_running"}, "target": {"averageValue": 4}},
            },
            "InFlightRequests",
            4,
        ),
        (
            {
                "type": "External",
                "external": {"metric": {"name": "gpu_cache_usage_perc"}, "target": {"averageValue": "800m"}},
            },
            "KVCachePercent",
            80,
        ),
    ],
)
def test_an_autoscaler_on_a_metric_of_ours_is_autoscaling(metric: Body, ours: str, target: int) -> None:
    body = deployment()
    body["spec"]["replicas"] = 2
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 300}}
    made = converts(body, scaler(metrics=[metric], minReplicas=2, maxReplicas=6, behavior=behavior))
    assert made.spec["autoscaling"] == {
        "minReplicas": 2,
        "maxReplicas": 6,
        "metric": ours,
        "target": target,
        "behavior": behavior,
    }
    assert "replicas" not in made.spec


def test_an_autoscaler_on_the_processor_keeps_its_bounds_and_says_what_is_gone() -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 70}}}
    made = converts(deployment(), scaler(metrics=[cpu], maxReplicas=3))
    assert made.spec["autoscaling"] == {"minReplicas": 1, "maxReplicas": 3}
    assert "spec.metrics[cpu]" in made.lost


def test_keda_keeps_its_triggers() -> None:
    trigger = {"type": "prometheus", "metadata": {"query": "x", "threshold": "5"}}
    scaled = {
        "kind": "ScaledObject",
        "metadata": {"name": "s"},
        "spec": {
            "scaleTargetRef": {"name": "chat"},
            "minReplicaCount": 0,
            "maxReplicaCount": 4,
            "triggers": [trigger],
            "cooldownPeriod": 60,
        },
    }
    made = converts(deployment(), scaled)
    assert made.spec["autoscaling"] == {
        "minReplicas": 0,
        "maxReplicas": 4,
        "backend": "KEDA",
        "keda": {"triggers": [trigger]},
    }
    assert "cooldownPeriod: 60" in made.lost


def test_a_budget_of_disruptions_is_availability_and_everything_else_stays_yours() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "chat"}}},
    }
    made = converts(deployment(), budget, {"kind": "Ingress", "metadata": {"name": "web"}})
    assert made.spec["availability"] == {"maxUnavailable": 2}
    assert "Ingress/web" in made.told("stays yours")


# --- the template --------------------------------------------------------------------------------------------
POD = {
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "runtimeClassName": "nvidia",
    "securityContext": {"runAsUser": 0},
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccountName": "reader",
    "initContainers": [{"name": "wait", "image": "busybox"}],
}


def test_what_a_pod_says_beside_the_engine_is_the_template() -> None:
    sidecar = {"name": "proxy", "image": "envoy", "ports": [{"name": "http", "containerPort": 8080}]}
    body = deployment(
        **POD, sidecars=[sidecar], c_workingDir="/srv", c_envFrom=[{"configMapRef": {"name": "x"}}]
    )
    body["spec"]["template"]["metadata"]["annotations"] = {"team": "a"}
    made = converts(body)
    assert made.spec["template"]["metadata"] == {"labels": {"app": "chat"}, "annotations": {"team": "a"}}
    pod = made.spec["template"]["spec"]
    assert pod == {
        **{key: value for key, value in POD.items() if value},
        "containers": [
            {"name": "engine", "workingDir": "/srv", "envFrom": [{"configMapRef": {"name": "x"}}]},
            {"name": "proxy", "image": "envoy", "ports": [{"containerPort": 8080}]},
        ],
    }
    assert "the name http is the engine's" in made.told("replaced")


def test_labels_of_the_operator_are_its_own() -> None:
    body = deployment()
    body["spec"]["template"]["metadata"]["labels"] |= {"app.kubernetes.io/name": "vllm"}
    made = converts(body)
    assert made.spec["template"]["metadata"]["labels"] == {"app": "chat"}
    assert "[app.kubernetes.io/name]" in made.told("replaced")


@pytest.mark.parametrize(
    ("devices", "volume", "volumes", "mounted"),
    [
        (1, {"medium": "Memory"}, [{"name": "shm", "emptyDir": {"medium": "Memory"}}], True),
        (2, {"medium": "Memory"}, None, False),
        (
            2,
            {"medium": "Memory", "sizeLimit": "8Gi"},
            [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
            False,
        ),
    ],
)
def test_shared_memory_keeps_its_size_under_the_operators_name(
    devices: int, volume: Body, volumes: Any, mounted: bool
) -> None:
    made = converts(
        deployment(
            c_resources={"limits": {"nvidia.com/gpu": devices}},
            c_volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}],
            volumes=[{"name": "dshm", "emptyDir": volume}],
        )
    )
    assert made.spec["template"].get("spec", {}).get("volumes") == volumes
    assert ("volumeMounts" in made.engine_part) == mounted


def test_a_volume_that_others_mount_too_stays_and_never_takes_a_name_of_ours() -> None:
    mount = {"name": "model", "mountPath": HUB}
    claim = {"name": "model", "persistentVolumeClaim": {"claimName": "c"}}
    loader = {"name": "loader", "image": "loader", "volumeMounts": [{"name": "model", "mountPath": "/to"}]}
    made = converts(deployment(c_volumeMounts=[mount], volumes=[claim], initContainers=[loader]))
    pod = made.spec["template"]["spec"]
    assert pod["volumes"] == [{"name": "model-1", "persistentVolumeClaim": {"claimName": "c"}}]
    assert pod["initContainers"][0]["volumeMounts"] == [{"name": "model-1", "mountPath": "/to"}]


def test_a_chat_template_of_a_configmap_is_a_field() -> None:
    args = ("--model", "m/m", "--chat-template", "/templates/tool.jinja")
    mounts = [{"name": "t", "mountPath": "/templates"}]
    made = converts(
        deployment(
            args, c_volumeMounts=mounts, volumes=[{"name": "t", "configMap": {"name": "chat-templates"}}]
        )
    )
    assert made.spec["engine"]["chatTemplate"] == {
        "configMapKeyRef": {"name": "chat-templates", "key": "tool.jinja"}
    }
    assert "args" not in made.spec["engine"]


def test_what_nobody_understands_is_listed_field_by_field() -> None:
    body = deployment()
    body["spec"]["paused"] = True
    body["spec"]["strange"] = {"new": [1, {"name": "x", "of": "y"}]}
    made = converts(body)
    for line in ("spec.paused: True", "spec.strange.new[0]: 1", "spec.strange.new[x].of: y"):
        assert f"Deployment/chat {line}" in made.lost


def test_what_the_api_server_writes_into_objects_is_no_news() -> None:
    body = deployment(
        restartPolicy="Always", dnsPolicy="ClusterFirst", c_terminationMessagePath="/dev/termination-log"
    )
    body["metadata"] |= {
        "uid": "1",
        "resourceVersion": "3",
        "annotations": {"deployment.kubernetes.io/revision": "4"},
    }
    body["status"] = {"replicas": 1}
    listed = {"apiVersion": "v1", "kind": "List", "items": [body]}
    made = converts(listed)
    assert (made.lost, made.metadata) == ("", {"name": "chat"})
    assert "spec" not in made.spec["template"]
