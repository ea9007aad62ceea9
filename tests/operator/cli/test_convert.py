"""Hand-written Deployments of vLLM as LLMServices: how the server is started, and where each field goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from llmservice_operator.cli.people import manifests

from tests.operator.cli import person
from tests.operator.cli.person import (
    MANIFESTS,
    Body,
    claim,
    converts,
    deployment,
    refused,
    service,
    types,
)

SEEDS = {path.stem: path for path in sorted(MANIFESTS.glob("seed-*.yaml"))}
API_SERVER = ["python3", "-m", "vllm.entrypoints.openai.api_server"]


def seed(name: str) -> person.Converted:
    return converts(*manifests.read(SEEDS[name]))


# --- the seeds -----------------------------------------------------------------------------------------------
def test_the_first_articles_deployment_and_service_become_one_object() -> None:
    made = seed("seed-cache")
    assert made.metadata == {"name": "vllm-llama3", "namespace": "ai-workloads"}
    assert made.spec == {
        "model": {
            "source": {"hf": {"repo": "meta-llama/Meta-Llama-3-8B-Instruct"}},
            "tokenSecretRef": {"name": "hf-token-secret", "key": "token"},
        },
        "engine": {
            "image": "vllm/vllm-openai:v0.5.0",
            "runtime": "VLLM",
            "maxModelLen": 8192,
            "gpuMemoryUtilization": 0.95,
        },
        "accelerator": {"count": 1, "resourceName": "nvidia.com/gpu"},
        "resources": {"requests": {"memory": "16Gi", "cpu": "4"}, "limits": {"memory": "32Gi", "cpu": "8"}},
        "cache": {"mode": "Existing", "claimName": "model-cache-pvc"},
        "replicas": 1,
        "expose": {"service": {"name": "vllm-llama3-svc", "port": 8000}},
        "template": {"metadata": {"labels": {"app": "vllm-llama3"}}},
    }
    assert made.lost == ""


def test_the_second_articles_deployment_keeps_every_flag_its_budget_and_its_capability() -> None:
    made = seed("seed-probes")
    assert made.metadata["labels"] == {"app": "vllm-server"}
    assert made.spec["engine"] == {
        "image": "vllm/vllm-openai:v0.4.2",
        "runtime": "VLLM",
        "maxModelLen": 4096,
        "gpuMemoryUtilization": 0.9,
        "blockSize": 16,
        "maxNumSeqs": 256,
        "tensorParallelSize": 1,
        "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
    }
    assert made.spec["startup"] == {"deadline": "360s"}
    assert made.spec["replicas"] == 2
    assert made.engine_part == {
        "name": "engine",
        "securityContext": {"runAsNonRoot": False, "capabilities": {"add": ["SYS_PTRACE"]}},
    }
    assert "cache" not in made.spec
    assert made.lost == ""


@pytest.mark.parametrize("name", SEEDS)
def test_what_a_seed_becomes_is_written_down(name: str) -> None:
    made = types("convert", "-f", SEEDS[name])
    golden = MANIFESTS / "converted" / f"{name}.yaml"
    assert made.out == golden.read_text(), f"llmservice convert -f {SEEDS[name]} > {golden}"


@pytest.mark.parametrize("name", SEEDS)
def test_what_a_seed_becomes_renders_with_its_model_cache_and_devices(name: str, tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(types("convert", "-f", SEEDS[name]).out)
    children = {
        child["kind"]: child for child in types("render", "-f", file, "--revision", "c0ffee").documents
    }
    pod = children["Deployment"]["spec"]["template"]["spec"]
    (engine,) = (one for one in pod["containers"] if one["name"] == "engine")
    assert engine["args"][:2] == [
        "--model",
        "/mnt/model/hub/models--meta-llama--Meta-Llama-3-8B-Instruct/snapshots/c0ffee",
    ]
    assert engine["resources"]["limits"]["nvidia.com/gpu"] == "1"
    (volume,) = (one for one in pod["volumes"] if one["name"] == "model")
    claim = volume["persistentVolumeClaim"]["claimName"]
    assert (claim == "model-cache-pvc") == (name == "seed-cache")
    (token,) = (one for one in children["Job"]["spec"]["template"]["spec"]["volumes"] if "secret" in one)
    assert token["secret"]["secretName"] == "hf-token-secret"


def test_a_seed_with_the_bundled_engine_has_the_same_settings_and_no_image() -> None:
    made = converts(*manifests.read(SEEDS["seed-probes"]), options=("--engine", "bundled"))
    assert made.spec["engine"] == {
        "maxModelLen": 4096,
        "gpuMemoryUtilization": 0.9,
        "blockSize": 16,
        "maxNumSeqs": 256,
        "tensorParallelSize": 1,
        "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
    }


def test_a_seeds_claim_may_become_the_operators_own_of_the_same_size_and_class() -> None:
    given = claim("model-cache-pvc", storage="200Gi", storageClassName="efs", accessModes=["ReadWriteMany"])
    made = converts(*manifests.read(SEEDS["seed-cache"]), given, options=("--cache", "managed"))
    assert made.spec["cache"] == {"mode": "Managed", "size": "200Gi", "storageClassName": "efs"}


# --- how the server is started -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("command", "args"),
    [
        (None, ("--model", "org/Llama", "--max-model-len", "4096", "--trust-remote-code")),
        (None, ("--model=org/Llama", "--max-model-len=4096", "--trust-remote-code")),
        (None, ("--model org/Llama", "--max-model-len 4096", "--trust-remote-code")),
        (None, ("--model org/Llama --max-model-len=4096 --trust-remote-code",)),
        (None, "--model org/Llama --max-model-len 4096 --trust-remote-code"),
        (None, ("serve", "org/Llama", "--max_model_len", "4096", "--trust-remote-code")),
        (None, ("org/Llama", "--max-model-len", "4096", "--trust-remote-code")),
        (["vllm", "serve", "org/Llama"], ("--max-model-len", "4096", "--trust-remote-code")),
        (["vllm", "serve"], ("--max-model-len", "4096", "--trust-remote-code", "org/Llama")),
        (["/usr/bin/vllm"], ("serve", "org/Llama", "--max-model-len", "4096", "--trust-remote-code")),
        (API_SERVER, ("--model", "org/Llama", "--max-model-len", "4096", "--trust-remote-code")),
        (
            ["python", "-u", *API_SERVER[1:]],
            ("--model=org/Llama", "--max-model-len=4096", "--trust-remote-code"),
        ),
        (["sh", "-c"], ("vllm serve org/Llama --max-model-len 4096 --trust-remote-code",)),
        (
            [
                "/bin/bash",
                "-ec",
                "exec vllm serve org/Llama \\\n  --max-model-len=4096 \\\n  --trust-remote-code",
            ],
            (),
        ),
        (
            [
                "sh",
                "-c",
                "python3 -m vllm.entrypoints.openai.api_server --model 'org/Llama' --max-model-len $LENGTH "
                "--trust-remote-code 2>&1",
            ],
            (),
        ),
        (
            [
                "sh",
                "-c",
                "export LENGTH=4096\nvllm serve ${MODEL:-org/Llama} --max-model-len ${LENGTH} "
                "--trust-remote-code",
            ],
            (),
        ),
        (["vllm", "serve", "$(MODEL_ID)"], ("--max-model-len=$(LENGTH)", "--trust-remote-code")),
    ],
)
def test_however_the_server_is_started_it_is_the_same_model_and_flags(command: Any, args: Any) -> None:
    env = [{"name": "LENGTH", "value": "4096"}, {"name": "MODEL_ID", "value": "org/Llama"}]
    made = converts(deployment(args, command=command, c_env=env))
    assert made.spec["model"]["source"] == {"hf": {"repo": "org/Llama"}}
    assert made.spec["engine"]["maxModelLen"] == 4096
    assert made.spec["engine"]["args"] == ["--trust-remote-code"]
    assert made.spec["engine"]["env"][1] == env[1]


def test_another_images_server_gets_the_command_that_every_vllm_has() -> None:
    made = converts(deployment((), command=["vllm", "serve", "org/Llama"], image="registry.example/llm:1"))
    assert made.engine_part["command"] == API_SERVER
    assert "command" not in converts(deployment((), command=["vllm", "serve", "org/Llama"])).engine_part


def test_what_else_a_script_does_is_listed_and_what_it_sets_is_kept() -> None:
    script = "pip install -q flashinfer && cd /srv; VLLM_LOGGING_LEVEL=DEBUG vllm serve org/Llama"
    made = converts(deployment((), command=["bash", "-c", script]))
    assert "pip install -q flashinfer" in made.lost
    assert "cd /srv" in made.lost
    assert made.spec["engine"]["env"] == [{"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"}]


def test_flags_without_a_field_go_on_in_their_order_json_and_lists_among_them() -> None:
    flags = (
        "--tool-call-parser",
        "llama3_json",
        "--limit-mm-per-prompt",
        '{"image": 2}',
        "--lora-modules",
        "a=/a",
        "b=/b",
        "-tp",
        "2",
        "--max-model-len",
        "128k",
        "--api-key",
        "$(KEY)",
    )
    made = converts(
        deployment(("--model", "org/Llama", *flags), c_resources={"limits": {"nvidia.com/gpu": 2}})
    )
    assert made.spec["engine"]["toolCallParser"] == "llama3_json"
    assert made.spec["engine"]["args"] == [*flags[2:7], *flags[9:]], (
        "128k is vLLM's spelling, not ours: still a flag"
    )
    assert made.spec["engine"]["tensorParallelSize"] == 2


def test_the_bundled_engine_loses_flags_that_it_does_not_have_by_name() -> None:
    made = converts(
        deployment(("--model", "m/m", "--enable-prefix-caching", "--seed", "3")),
        options=("--engine", "bundled"),
    )
    assert made.spec["engine"] == {"args": ["--seed", "3"]}
    assert "--enable-prefix-caching: the bundled engine has no such flag" in made.lost


def test_of_a_repeated_flag_the_last_counts() -> None:
    made = converts(
        deployment(("--model", "m/m", "--block-size", "32", "--block-size=16", "--dtype", "half"))
    )
    assert (made.spec["engine"]["blockSize"], made.spec["engine"]["dtype"]) == (16, "float16")


def test_served_names_revision_and_port_have_places_of_their_own() -> None:
    args = (
        "--model",
        "m/m",
        "--served-model-name",
        "chat",
        "default",
        "--revision",
        "v2",
        "--host",
        "0.0.0.0",
        "--port",
        "8080",
    )
    front = service({"port": 80, "targetPort": "api"})
    made = converts(deployment(args, c_ports=[{"name": "api", "containerPort": 8080}]), front)
    assert made.spec["model"] == {
        "source": {"hf": {"repo": "m/m", "revision": "v2"}},
        "servedNames": ["chat", "default"],
    }
    assert made.spec["expose"] == {"service": {"name": "front", "port": 80}}
    assert "args" not in made.spec["engine"]
    assert "ports" not in made.engine_part
    assert "--port 8080" in made.told("replaced")


# --- what cannot be converted --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("bodies", "said"),
    [
        ([deployment((), image="nginx:1")], "Deployment/chat runs no model server"),
        (
            [deployment(("--model-id", "m"), image="ghcr.io/huggingface/text-generation-inference:3")],
            "runs Text Generation Inference",
        ),
        ([deployment((), command=["sh", "-c", "vllm serve 'unclosed"])], "runs no model server"),
        ([deployment(())], "names no model"),
        ([deployment(("--model", "/models/x"))], "nothing is mounted there"),
        (
            [
                deployment(
                    ("--model", "/m/x"),
                    c_volumeMounts=[{"name": "v", "mountPath": "/m"}],
                    volumes=[{"name": "v", "nfs": {}}],
                )
            ],
            "nfs is mounted there",
        ),
        ([deployment(("--model", "gs://b/x"))], "is no hub repository"),
        ([deployment(("--model", "$(MODEL)"))], "whose value is not in the manifest"),
        ([deployment(), {**deployment(), "metadata": {"name": "other"}}], "--name"),
        ([{"kind": "Service", "metadata": {"name": "s"}}], "no Deployment, but Service"),
        ([{"kind": "Deployment", "metadata": {"name": "s"}}], "has no spec.template.spec"),
        (
            [deployment(c_env="x")],
            "Deployment/chat spec.template.spec.containers[server].env: must be a list of objects",
        ),
        ([{**deployment(), "metadata": {}}], "no metadata.name"),
    ],
)
def test_what_cannot_be_converted_gets_one_line(bodies: list[Body], said: str) -> None:
    assert said in refused(types("convert", "-f", "-", given=yaml.safe_dump_all(bodies)))


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [", "is not YAML"), ("just text", "no Kubernetes object"), ("", "no Deployment, but nothing")],
)
def test_a_file_that_is_no_manifest_gets_one_line(text: str, said: str) -> None:
    assert said in refused(types("convert", "-f", "-", given=text))


def test_a_file_that_is_not_there_gets_one_line() -> None:
    assert "cannot be read: No such file" in refused(types("convert", "-f", "/nowhere.yaml"))
