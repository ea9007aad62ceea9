"""Hand-written Deployments of vLLM: where the model comes from, its token, and where its copy lies."""

from __future__ import annotations

import pytest
import yaml

from tests.operator.cli.person import HUB, Body, claim, converts, deployment, from_secret, types


def test_a_model_on_a_claim_is_a_pvc_source_and_the_name_that_clients_asked_for_is_said_to_go() -> None:
    mounts = [{"name": "models", "mountPath": "/models", "subPath": "llm"}]
    volumes = [{"name": "models", "persistentVolumeClaim": {"claimName": "weights"}}]
    made = converts(deployment(("--model", "/models/llama/8b"), c_volumeMounts=mounts, volumes=volumes))
    assert made.spec["model"] == {"source": {"pvc": {"claimName": "weights", "path": "llm/llama/8b"}}}
    assert "clients ask for /models/llama/8b now" in made.lost
    assert "cache" not in made.spec
    assert "volumes" not in made.spec["template"].get("spec", {})


def test_a_model_in_a_bucket_takes_its_keys_from_the_secret() -> None:
    env = [
        from_secret("AWS_ACCESS_KEY_ID", "s3"),
        from_secret("AWS_SECRET_ACCESS_KEY", "s3"),
        {"name": "AWS_ENDPOINT_URL", "value": "http://minio:9000"},
    ]
    made = converts(
        deployment(("--model", "s3://models/llama/", "--load-format", "runai_streamer"), c_env=env)
    )
    assert made.spec["model"]["source"] == {
        "s3": {
            "uri": "s3://models/llama",
            "endpoint": "http://minio:9000",
            "credentialsSecretRef": {"name": "s3"},
        }
    }
    assert "env" not in made.spec["engine"]


@pytest.mark.parametrize("variable", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_the_token_is_named_where_jobs_find_it_and_leaves_the_pod(variable: str) -> None:
    made = converts(deployment(c_env=[from_secret(variable, "hub", "key")]))
    assert made.spec["model"]["tokenSecretRef"] == {"name": "hub", "key": "key"}
    assert "env" not in made.spec["engine"]


def test_a_token_in_the_open_is_never_repeated() -> None:
    said = types(
        "convert",
        "-f",
        "-",
        given=yaml.safe_dump(deployment(c_env=[{"name": "HF_TOKEN", "value": "hf_open"}])),
    )
    assert "kubectl create secret" in said.out.replace("\n#", "").replace("   ", " ")
    assert "hf_open" not in said.out + said.err


@pytest.mark.parametrize(
    ("mount", "env", "volume", "cache", "told"),
    [
        (HUB, {}, {"persistentVolumeClaim": {"claimName": "c"}}, {"mode": "Existing", "claimName": "c"}, ""),
        (
            "/data",
            {"HF_HOME": "/data"},
            {"persistentVolumeClaim": {"claimName": "c"}},
            {"mode": "Existing", "claimName": "c"},
            "",
        ),
        (
            "/root/.cache",
            {},
            {"persistentVolumeClaim": {"claimName": "c"}},
            {"mode": "Existing", "claimName": "c"},
            "huggingface/hub of the claim",
        ),
        (
            "/home/vllm/.cache/huggingface",
            {},
            {"persistentVolumeClaim": {"claimName": "c"}},
            {"mode": "Existing", "claimName": "c"},
            "",
        ),
        (
            f"{HUB}/hub",
            {},
            {"persistentVolumeClaim": {"claimName": "c"}},
            {"mode": "Existing", "claimName": "c"},
            "the root of the claim",
        ),
        (HUB, {}, {"emptyDir": {}}, {"mode": "None"}, "to its node's disk"),
        (
            HUB,
            {},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "50Gi"}}}
                    }
                }
            },
            {"mode": "Ephemeral", "size": "50Gi", "storageClassName": "fast"},
            "",
        ),
    ],
)
def test_what_is_mounted_at_the_hubs_cache_says_the_mode(
    mount: str, env: dict[str, str], volume: Body, cache: Body, told: str
) -> None:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    mounts = [{"name": "cache", "mountPath": mount}]
    made = converts(deployment(c_env=variables, c_volumeMounts=mounts, volumes=[{"name": "cache", **volume}]))
    assert made.spec["cache"] == cache
    assert "volumes" not in made.spec["template"].get("spec", {})
    assert told in made.told("replaced")
    assert "env" not in made.spec["engine"]


def test_a_cache_on_the_nodes_path_has_no_field_and_is_said_to() -> None:
    mounts, volumes = [{"name": "c", "mountPath": HUB}], [{"name": "c", "hostPath": {"path": "/mnt/models"}}]
    made = converts(deployment(c_volumeMounts=mounts, volumes=volumes))
    assert "cache" not in made.spec
    assert "hostPath" in made.lost


def test_the_job_goes_where_a_claim_of_one_node_must_be_bound() -> None:
    mounts, volumes = (
        [{"name": "c", "mountPath": HUB}],
        [{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}],
    )
    made = converts(
        deployment(c_volumeMounts=mounts, volumes=volumes, nodeSelector={"pool": "gpu"}),
        claim("c", accessModes=["ReadWriteOnce"]),
    )
    assert made.spec["cache"]["job"] == {"nodeSelector": {"pool": "gpu"}}
