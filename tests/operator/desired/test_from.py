"""Manifests of other projects as LLMServices, in `examples/from/`: nothing of the originals is lost on the way.

`UPDATE_GOLDEN=1` writes what comes out, as far as it differs from what is made of an object that says nothing but a
model; read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from llmservice_operator.api import spec
from llmservice_operator.api.errors import InvalidSpec

from tests.operator.desired import world
from tests.operator.desired.originals import (
    CLAIM,
    FILES,
    Made,
    beside_plain,
    beyond_plain,
    children,
    differing,
    merged,
    named,
    plain,
    records,
    row,
    services,
)
from tests.operator.desired.test_golden import GOLDEN, Plain

# What each file says it comes from.
SOURCES = {
    "d01": ["kubernetes/examples: AI/vllm-deployment/vllm-deployment.yaml"],
    "d02": ["kubernetes/examples: AI/vllm-deployment/hpa/horizontal-pod-autoscaler.yaml"],
    "d03": ["GoogleCloudPlatform/kubernetes-engine-samples: ai-ml/adk-vllm/deploy-llm/deploy-llm.yaml"],
    "d06": ["kubernetes-engine-samples: ai-ml/llm-multiple-gpus/llama3-70b/text-generation-inference.yaml"],
    "d07": ["production-stack: operator/config/samples/production-stack_v1alpha1_vllmruntime.yaml"],
    "d08": [
        "production-stack: operator/config/samples/production-stack_v1alpha1_vllmruntime_autoscaling.yaml"
    ],
    "d09": ["vllm-project/production-stack: tutorials/assets/values-25-v100-multi-gpu-tp2.yaml"],
    "d11": [
        "production-stack: tutorials/assets/values-13-tool-enabled.yaml",
        "values-06-shared-storage.yaml",
    ],
    "d12": ["kserve/kserve: docs/samples/llmisvc/e2e-gpt-oss/inference_default.yaml"],
    "d13": ["kserve/kserve: docs/samples/llmisvc/multi-gpu-vendor/", "qwen2-7b-amd-no-scheduler.yaml"],
    "d14": ["kserve/kserve: docs/samples/fluid/fluid-isvc.yaml", "kserve-huggingfaceserver.yaml"],
    "d15": ["vllm-project/aibrix: samples/adapter/base-api-key.yaml"],
    "d16": [
        "kaito-project/kaito: examples/inference/kaito_inferenceset_mig_mixed",
        "custom-model-deployment.yaml",
    ],
    "d17": ["NVIDIA/k8s-nim-operator: config/samples/nim/serving/standalone/full/llm.yaml"],
    "d18": ["awslabs/ai-on-eks: blueprints/inference/gpu/", "nim-service-llama3-8b-instruct.yaml"],
    "d20": ["Tanguille/cluster: kubernetes/apps/ai/llmkube/models/qwen38-27b-vllm.yaml"],
    "d22": [
        "defilantech/LLMKube: config/samples/multi-gpu-eks-spot.yaml",
        "config/samples/model_s3_source.yaml",
    ],
    "d23": ["kubeai: manifests/models/deepseek-r1-mi300x.yaml", "hack/dev-models/vllm-with-adapters.yaml"],
}


def test_every_manifest_of_the_case_log_has_its_file_and_no_file_is_without_one() -> None:
    assert [row(file) for file in FILES] == sorted(SOURCES)


@pytest.mark.parametrize("file", FILES, ids=named)
def test_header_says_where_the_original_is(file: Path) -> None:
    lines = file.read_text().splitlines()
    header = "\n".join(lines[: next(number for number, line in enumerate(lines) if not line.startswith("#"))])
    assert header.startswith("# From ")
    for source in SOURCES[row(file)]:
        assert source in header
    assert all(len(line) <= 120 for line in header.splitlines())


@pytest.mark.parametrize("file", FILES, ids=named)
def test_file_is_a_valid_spec_with_what_the_api_server_adds(file: Path) -> None:
    bodies = services(file)
    assert bodies
    for body in bodies:
        assert spec.parse(body).name == body["metadata"]["name"]


def is_recorded(name: str, made: list[dict[str, Any]]) -> bool:
    recorded = GOLDEN / "from" / f"{name}.out.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        recorded.parent.mkdir(exist_ok=True)
        recorded.write_text(yaml.dump_all(made, Dumper=Plain, width=110, default_flow_style=None))
    return list(yaml.safe_load_all(recorded.read_text())) == made


def test_children_of_a_plain_object_are_the_recorded_ones() -> None:
    assert is_recorded("plain", records(plain("plain")))


@pytest.mark.parametrize("file", FILES, ids=named)
def test_children_differ_from_plain_ones_by_what_is_recorded(file: Path) -> None:
    assert is_recorded(file.stem, beyond_plain(file))


@pytest.mark.parametrize("file", FILES, ids=named)
def test_nothing_is_lost_between_plain_children_and_what_is_recorded(file: Path) -> None:
    for child, other in beside_plain(file):
        assert merged(other, differing(child, other)) == child


def test_no_recorded_children_are_left_without_their_file() -> None:
    recorded = {path.name.removesuffix(".out.yaml") for path in (GOLDEN / "from").glob("*.yaml")}
    assert recorded == {"plain"} | {file.stem for file in FILES}


MEMORY = {"emptyDir": {"medium": "Memory"}}
GPU = "nvidia.com/gpu"


def shm(size: str) -> dict[str, Any]:
    return {"emptyDir": {"medium": "Memory", "sizeLimit": size}}


def limits(made: Made) -> Any:
    return made.engine["resources"]["limits"]


def requests(made: Made) -> Any:
    return made.engine["resources"]["requests"]


# row and object, what the original asks for, where it landed, as what
LANDED: list[tuple[str, str, Callable[[Made], Any], Any]] = [
    ("d01 vllm-gemma", "token Secret and key", lambda m: m.job_secrets["token"]["items"][0]["key"], "hf_token"),
    ("d01 vllm-gemma", "MODEL_ID", lambda m: "google/gemma-3-1b-it" in m.fetched, True),
    ("d01 vllm-gemma", "ephemeral-storage", lambda m: limits(m)["ephemeral-storage"], "10Gi"),
    ("d01 vllm-gemma", "LD_LIBRARY_PATH", lambda m: m.env["LD_LIBRARY_PATH"], "/usr/local/nvidia/lib64"),
    ("d01 vllm-gemma", "/dev/shm without a size", lambda m: m.volumes[m.mounts["/dev/shm"]], MEMORY),
    ("d01 vllm-gemma", "port 8080", lambda m: m["Service"]["ports"][0]["port"], 8080),
    ("d01 vllm-gemma", "digest", lambda m: m.engine["image"].partition("@")[2][:13], "sha256:05a31d"),
    ("d01 vllm-gemma", "no probes: ours", lambda m: m.engine["readinessProbe"]["httpGet"]["path"], "/health"),
    ("d02 vllm-gemma", "bounds", lambda m: m["HorizontalPodAutoscaler"]["maxReplicas"], 5),
    ("d02 vllm-gemma", "metric and target", lambda m: m.object_metric, ("num_requests_in_flight", "4")),
    ("d02 vllm-gemma", "scale-down window and policy",
     lambda m: m["HorizontalPodAutoscaler"]["behavior"]["scaleDown"],
     {"stabilizationWindowSeconds": 30, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}),
    ("d02 vllm-gemma", "the autoscaler's replicas", lambda m: "replicas" in m.deployment, False),
    ("d03 vllm-llama3", "chat template", lambda m: m.volumes["chat-template"]["configMap"]["name"],
     "llama-chat-templates"),
    ("d03 vllm-llama3", "chat template's flag", lambda m: m.flag("--chat-template"),
     ["/etc/llmservice/chat-template/tool_chat_template_llama3.1_json.jinja"]),
    ("d03 vllm-llama3", "tool parser", lambda m: m.flag("--tool-call-parser"), ["llama3_json"]),
    ("d03 vllm-llama3", "longest sequence", lambda m: m.flag("--max-model-len"), ["32768"]),
    ("d03 vllm-llama3", "L4 nodes", lambda m: m.pod["nodeSelector"],
     {"cloud.google.com/gke-accelerator": "nvidia-l4"}),
    ("d03 vllm-llama3", "pod labels", lambda m: m.labels["ai.gke.io/inference-server"], "vllm"),
    ("d03 vllm-llama3", "Service's name", lambda m: m.metadata["Service"]["name"], "vllm-llama3-service"),
    ("d06 llm", "NUM_SHARD", lambda m: (m.flag("--tensor-parallel-size"), limits(m)[GPU]), (["2"], "2")),
    ("d06 llm", "QUANTIZE", lambda m: m.flag("--quantization"), ["bitsandbytes"]),
    ("d06 llm", "ephemeral volume", lambda m: m.volumes["model"]["ephemeral"]["volumeClaimTemplate"]["spec"],
     {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "150Gi"}},
      "storageClassName": "premium-rwo"}),
    ("d06 llm", "spot", lambda m: (m.pod["nodeSelector"]["cloud.google.com/gke-spot"], m.pod["tolerations"][0]["key"]),
     ("true", "cloud.google.com/gke-spot")),
    ("d06 llm", "/dev/shm", lambda m: m.volumes[m.mounts["/dev/shm"]], MEMORY),
    ("d06 llm", "token for the copy in the pod", lambda m: m.volumes["token"]["secret"]["secretName"], "l4-demo"),
    ("d07 vllmruntime-sample", "dtype", lambda m: m.flag("--dtype"), ["bfloat16"]),
    ("d07 vllmruntime-sample", "sequences", lambda m: m.flag("--max-num-seqs"), ["32"]),
    ("d07 vllmruntime-sample", "memory share", lambda m: m.flag("--gpu-memory-utilization"), ["0.8"]),
    ("d07 vllmruntime-sample", "LoRA", lambda m: m.flag("--max-loras"), ["4"]),
    ("d07 vllmruntime-sample", "LMCache", lambda m: m.env["LMCACHE_MAX_LOCAL_CPU_SIZE"], "15"),
    ("d07 vllmruntime-sample", "token secret and key",
     lambda m: (m.job_secrets["token"]["secretName"], m.job_secrets["token"]["items"][0]["key"]),
     ("huggingface-token", "token")),
    ("d07 vllmruntime-sample", "strategy", lambda m: m.deployment["strategy"], {"type": "Recreate"}),
    ("d07 vllmruntime-sample", "sidecar and its folder",
     lambda m: m.sidecars["sidecar"]["volumeMounts"], [{"name": "model", "mountPath": "/data"}]),
    ("d07 vllmruntime-sample", "RWX storage, large enough",
     lambda m: (m.claim["accessModes"], m.claim["resources"]["requests"]["storage"]), (["ReadWriteMany"], "18Gi")),
    ("d08 vllmruntime-autoscaling-minimal", "most replicas",
     lambda m: m["HorizontalPodAutoscaler"]["maxReplicas"], 2),
    ("d08 vllmruntime-autoscaling-scale-to-zero", "left to a scaler of the user's",
     lambda m: ("replicas" in m.deployment, "ScaledObject" in m.by_kind), (False, False)),
    ("d08 vllmruntime-autoscaling-sample", "bounds",
     lambda m: (m["ScaledObject"]["minReplicaCount"], m["ScaledObject"]["maxReplicaCount"]), (1, 4)),
    ("d08 vllmruntime-autoscaling-sample", "thresholds",
     lambda m: [one["metadata"]["threshold"] for one in m["ScaledObject"]["triggers"]], ["5", "100", "100"]),
    ("d08 vllmruntime-autoscaling-sample", "pods a minute",
     lambda m: m["ScaledObject"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]["policies"],
     [{"type": "Pods", "value": 1, "periodSeconds": 60}]),
    ("d09 qwen7b", "runtime class", lambda m: m.pod["runtimeClassName"], "nvidia"),
    ("d09 qwen7b", "strategy", lambda m: m.deployment["strategy"], {"type": "Recreate"}),
    ("d09 qwen7b", "shared memory", lambda m: m.volumes[m.mounts["/dev/shm"]], shm("4Gi")),
    ("d09 qwen7b", "dtype half", lambda m: m.flag("--dtype"), ["float16"]),
    ("d09 qwen7b", "tensor parallel", lambda m: (m.flag("--tensor-parallel-size"), limits(m)[GPU]), (["2"], "2")),
    ("d09 qwen7b", "eager", lambda m: m.flag("--enforce-eager"), []),
    ("d09 qwen7b", "legacy engine", lambda m: m.env["VLLM_USE_V1"], "0"),
    ("d09 qwen7b", "one node", lambda m: m.pod["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"],
     ["gpu-node-01"]),
    ("d09 qwen7b", "storage", lambda m: (m.claim["accessModes"], m.claim["resources"]["requests"]["storage"]),
     (["ReadWriteOnce"], "50Gi")),
    ("d09 qwen7b", "the copy is made on the engine's node", lambda m: m.job["affinity"] == m.pod["affinity"], True),
    ("d11 llama3-8b", "tool parser", lambda m: m.flag("--tool-call-parser"), ["llama3_json"]),
    ("d11 llama3-8b", "template", lambda m: m.mounts["/etc/llmservice/chat-template"], "chat-template"),
    ("d11 mistral", "init container", lambda m: [one["name"] for one in m.pod["initContainers"]],
     ["wait-for-cache-server"]),
    ("d11 mistral", "cache for both replicas", lambda m: (m.claim["accessModes"], m.deployment["replicas"]),
     (["ReadWriteMany"], 2)),
    ("d12 gpt-oss-20b", "claim, read-only",
     lambda m: (m.volumes["model"], next(one["readOnly"] for one in m.engine["volumeMounts"])),
     ({"persistentVolumeClaim": {"claimName": "gpt-oss-20b-pvc"}}, True)),
    ("d12 gpt-oss-20b", "integer GPU", lambda m: requests(m)[GPU], "1"),
    ("d12 gpt-oss-20b", "name", lambda m: m.flag("--served-model-name"), ["RedHatAI/gpt-oss-20b"]),
    ("d12 gpt-oss-20b", "gateway", lambda m: m["HTTPRoute"]["parentRefs"], [{"name": "ai-gateway"}]),
    ("d12 gpt-oss-20b", "80 minutes to start", lambda m: m.engine["startupProbe"]["failureThreshold"] * 2, 4800),
    ("d12 gpt-oss-20b", "shared memory of the base", lambda m: m.volumes[m.mounts["/dev/shm"]], shm("1Gi")),
    ("d13 qwen2-7b-instruct-amd", "vendor by the resource", lambda m: requests(m)["amd.com/gpu"], "1"),
    ("d13 qwen2-7b-instruct-amd", "image", lambda m: m.engine["image"], "ghcr.io/llm-d/llm-d-rocm:v0.8.0"),
    ("d13 qwen2-7b-instruct-amd", "our name label stays", lambda m: m.labels["app.kubernetes.io/name"], "llmservice"),
    ("d13 qwen2-7b-instruct-amd", "the others", lambda m: m.labels["kserve.io/component"], "workload"),
    ("d14 llama-31-8b-instruct", "claim and folder", lambda m: m.flag("--model"), ["/mnt/model/llama-31-8b-instruct"]),
    ("d14 llama-31-8b-instruct", "name by default", lambda m: m.flag("--served-model-name"), ["llama-31-8b-instruct"]),
    ("d14 llama-31-8b-instruct", "from zero", lambda m: "replicas" in m.deployment, False),
    ("d14 llama-31-8b-instruct", "container security",
     lambda m: (m.pod["securityContext"]["runAsNonRoot"], m.engine["securityContext"]["capabilities"]),
     (True, {"drop": ["ALL"]})),
    ("d14 llama-31-8b-instruct", "instance type", lambda m: m.pod["nodeSelector"],
     {"node.kubernetes.io/instance-type": "g5.8xlarge"}),
    ("d15 qwen-coder-1-5b-instruct", "sidecar", lambda m: m.sidecars["aibrix-runtime"]["ports"][0]["containerPort"],
     8080),
    ("d15 qwen-coder-1-5b-instruct", "API key", lambda m: m.env["VLLM_API_KEY"]["secretKeyRef"]["key"], "key"),
    ("d15 qwen-coder-1-5b-instruct", "label with a domain", lambda m: m.labels["model.aibrix.ai/name"],
     "qwen-coder-1-5b-instruct"),
    ("d15 qwen-coder-1-5b-instruct", "Service's labels",
     lambda m: m.metadata["Service"]["labels"]["prometheus-discovery"], "true"),
    ("d15 qwen-coder-1-5b-instruct", "Service's annotations",
     lambda m: m.metadata["Service"]["annotations"]["prometheus.io/port"], "8080"),
    ("d15 qwen-coder-1-5b-instruct", "LoRA", lambda m: m.flag("--enable-lora"), []),
    ("d16 phi-4-mini", "MIG profile", lambda m: limits(m), {"nvidia.com/mig-2g.24gb": "1"}),
    ("d16 phi-4-mini", "KEDA's threshold", lambda m: m.trigger["metadata"]["threshold"], "10"),
    ("d16 phi-4-mini", "KEDA's metric", lambda m: "vllm:num_requests_waiting{" in m.trigger["metadata"]["query"], True),
    ("d16 workspace-custom-llm", "600 s to live", lambda m: m.engine["startupProbe"]["failureThreshold"] * 2, 630),
    ("d16 workspace-custom-llm", "instance type",
     lambda m: m.pod["nodeSelector"]["node.kubernetes.io/instance-type"], "Standard_NC24ads_A100_v4"),
    ("d16 workspace-custom-llm", "image", lambda m: m.engine["image"], "mcr.microsoft.com/aks/kaito/kaito-base:0.0.8"),
    ("d17 meta-llama-3-2-1b-instruct", "pull secret", lambda m: m.pod["imagePullSecrets"], [{"name": "ngc-secret"}]),
    ("d17 meta-llama-3-2-1b-instruct", "cache", lambda m: m.claim["resources"]["requests"]["storage"], "50Gi"),
    ("d17 meta-llama-3-2-1b-instruct", "cache use", lambda m: m.object_metric, ("kv_cache_usage_percent", "50")),
    ("d17 meta-llama-3-2-1b-instruct", "monitor's labels",
     lambda m: m.metadata["PodMonitor"]["labels"]["release"], "kube-prometheus-stack"),
    ("d18 meta-llama3-8b-instruct", "limits only", lambda m: (limits(m), requests(m)),
     ({"cpu": "40", GPU: "2"}, {GPU: "2"})),
    ("d18 meta-llama3-8b-instruct", "Karpenter", lambda m: m.pod["nodeSelector"],
     {"karpenter.k8s.aws/instance-family": "g5"}),
    ("d18 meta-llama3-8b-instruct", "namespace", lambda m: m.metadata["Deployment"]["namespace"], "nim-service"),
    ("d20 qwen38-27b-vllm", "commit", lambda m: '"revision": "7908d42a' in m.fetched, True),
    ("d20 qwen38-27b-vllm", "files", lambda m: m.fetched.count(".json"), 7),
    ("d20 qwen38-27b-vllm", "tag and digest", lambda m: ":nightly@sha256:5550994c" in m.engine["image"], True),
    ("d20 qwen38-27b-vllm", "custom resource", lambda m: limits(m), {"squat.ai/dri": "1"}),
    ("d20 qwen38-27b-vllm", "shared memory", lambda m: m.volumes[m.mounts["/dev/shm"]], shm("24Gi")),
    ("d20 qwen38-27b-vllm", "compile cache", lambda m: (m.volumes[m.mounts["/cache"]], m.env["TRITON_CACHE_DIR"]),
     ({"persistentVolumeClaim": {"claimName": "qwen38-27b-vllm-compile-cache"}}, "/cache/triton")),
    ("d20 qwen38-27b-vllm", "groups, seccomp, root",
     lambda m: [m.pod["securityContext"][key] for key in ("supplementalGroups", "seccompProfile", "runAsUser")],
     [[44, 226], {"type": "Unconfined"}, 0]),
    ("d20 qwen38-27b-vllm", "the job has them too", lambda m: m.job["securityContext"]["runAsUser"], 0),
    ("d20 qwen38-27b-vllm", "the copy is made on the engine's node", lambda m: m.job["nodeSelector"],
     {"amd.com/gpu": "true"}),
    ("d20 qwen38-27b-vllm", "JSON stays a string", lambda m: m.flag("--compilation-config"),
     ['{"cudagraph_capture_sizes": [1, 2, 3, 4, 5]}']),
    ("d20 qwen38-27b-vllm", "two names", lambda m: m.flag("--served-model-name"), ["qwen-3.8", "qwen38-27b-vllm"]),
    ("d20 qwen38-27b-vllm", "start-up probe", lambda m: (m.engine["startupProbe"]["initialDelaySeconds"],
     m.engine["startupProbe"]["failureThreshold"]), (60, 240)),
    ("d20 qwen38-27b-vllm", "patience with a start", lambda m: m.deployment["progressDeadlineSeconds"] > 3660, True),
    ("d20 qwen38-27b-vllm", "liveness by command", lambda m: "httpGet" in m.engine["livenessProbe"], False),
    ("d20 qwen38-27b-vllm", "readiness by port", lambda m: m.engine["readinessProbe"]["tcpSocket"], {"port": "http"}),
    ("d20 qwen38-27b-vllm", "one file of a ConfigMap over another",
     lambda m: [one["subPath"] for one in m.engine["volumeMounts"] if one["name"] == "lds-gate-patch"],
     ["zz_lds_gate.pth", "zz_lds_gate_impl.py"]),
    ("d20 qwen38-27b-vllm", "storage class", lambda m: m.claim["storageClassName"], "openebs-hostpath"),
    ("d22 llama-13b-multi-gpu-service", "one file", lambda m: '["llama-2-13b.Q4_K_M.gguf"]' in m.fetched, True),
    ("d22 llama-13b-multi-gpu-service", "spot", lambda m: m.pod["tolerations"][0]["key"], "spotInstance"),
    ("d22 llama-13b-multi-gpu-service", "node group", lambda m: m.pod["nodeSelector"],
     {"eks.amazonaws.com/nodegroup": "gpu-spot-nodes"}),
    ("d22 llama-13b-multi-gpu-service", "two GPUs", lambda m: limits(m)[GPU], "2"),
    ("d22 llama-3.1-8b-s3", "folder of the bucket", lambda m: m.flag("--model")[0].startswith(
        "/mnt/model/s3/my-bucket/models/llama-3.1-8b/"), True),
    ("d22 llama-3.1-8b-s3", "no GPU", lambda m: limits(m), {"memory": "40Gi"}),
    ("d23 deepseek-r1-mi300x", "eight GPUs", lambda m: (m.flag("--tensor-parallel-size"), limits(m)["amd.com/gpu"]),
     (["8"], "8")),
    ("d23 deepseek-r1-mi300x", "the flag, spelt right", lambda m: m.flag("--max-num-batched-tokens"), ["32768"]),
    ("d23 deepseek-r1-mi300x", "env as a map", lambda m: m.env["NCCL_MIN_NCHANNELS"], "112"),
    ("d23 deepseek-r1-mi300x", "target", lambda m: m.object_metric, ("num_requests_in_flight", "1024")),
    ("d23 tinyllama-chat-adapters", "adapters", lambda m: m.flag("--lora-modules"),
     ["foo=/adapters/foo", "bar=/adapters/bar"]),
    ("d23 tinyllama-chat-adapters", "adapters' claim", lambda m: m.volumes[m.mounts["/adapters"]],
     {"persistentVolumeClaim": {"claimName": "tinyllama-adapters", "readOnly": True}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "asked", "landed", "value"), LANDED, ids=[f"{where}: {asked}" for where, asked, _, _ in LANDED]
)
def test_what_the_original_asks_for_is_in_the_children(
    where: str, asked: str, landed: Callable[[Made], Any], value: Any
) -> None:
    number, _, name = where.partition(" ")
    (file,) = (file for file in FILES if row(file) == number)
    assert landed(Made(file, name)) == value, asked


def test_every_object_of_every_file_is_asked_about() -> None:
    asked = {where for where, _, _, _ in LANDED}
    assert asked == {f"{row(file)} {body['metadata']['name']}" for file in FILES for body in services(file)}


def test_three_services_of_one_model_share_its_claim_and_copy() -> None:
    (file,) = (file for file in FILES if row(file) == "d08")
    made = children(file)
    assert len([child for child in made if child["kind"] == CLAIM]) == 1
    (copy,) = (
        child for child in made if child["kind"] == "Job" and len(child["metadata"]["ownerReferences"]) == 3
    )
    assert "copy" in copy["spec"]["template"]["spec"]["containers"][0]["args"]


def test_the_s3_secret_is_mounted_into_the_jobs_that_need_it() -> None:
    (file,) = (file for file in FILES if row(file) == "d22")
    jobs = [child for child in children(file) if child["kind"] == "Job" and "minio" in str(child)]
    assert len(jobs) == 2
    for job in jobs:
        (volume,) = (one for one in job["spec"]["template"]["spec"]["volumes"] if "secret" in one)
        assert volume["secret"]["secretName"] == "s3-credentials"


def test_the_misspelt_flag_is_refused_and_the_nearest_is_named() -> None:
    given = world.body(engine={"args": ["--max-num-batched-token=32768"]})
    with pytest.raises(InvalidSpec, match="did you mean --max-num-batched-tokens"):
        spec.parse(given)


SERVER = ["-m", "vllm.entrypoints.openai.api_server"]


def engines(file: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """``spec.engine`` of the file's objects that name vLLM's image, with the container made of it."""
    asked = {body["metadata"]["name"]: body["spec"].get("engine", {}) for body in services(file)}
    vllm = {
        name: given for name, given in asked.items() if "llama.cpp" not in given.get("image", "llama.cpp")
    }
    return [(given, Made(file, name).engine) for name, given in vllm.items()]


@pytest.mark.parametrize("file", FILES, ids=named)
def test_an_image_of_vllm_is_called_as_vllm(file: Path) -> None:
    for given, engine in engines(file):
        assert given["runtime"] == "VLLM"
        assert engine["args"][0] == "--model"
        assert {"serve", "--drain-timeout"}.isdisjoint(engine["args"])
        assert engine.get("command", SERVER)[-2:] == SERVER


@pytest.mark.parametrize("file", FILES, ids=named)
def test_an_image_of_vllm_is_asked_at_health_and_its_example_does_not_say_so(file: Path) -> None:
    """D20 had a probe of its own, by port."""
    for _, engine in engines(file):
        probe = engine["readinessProbe"]
        assert probe.get("httpGet") == {"path": "/health", "port": "http"} or row(file) == "d20"
    for body in services(file):
        pod = body["spec"].get("template", {}).get("spec", {})
        given: dict[str, Any] = next(
            (one for one in pod.get("containers", ()) if one["name"] == "engine"), {}
        )
        assert "readinessProbe" not in given or row(file) in {"d20", "d22"}


def test_the_other_examples_have_none_of_vllm() -> None:
    """The bundled engine serves there; in D22 llama.cpp's server too."""
    assert [row(file) for file in FILES if not engines(file)] == ["d08", "d14", "d17", "d22"]
