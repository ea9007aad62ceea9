"""``fetch resolve`` of a hub's repository: facts, and refusals that say the next move."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from llmservice_operator.api import copies
from llmservice_planner import shape

from tests.operator.fetch.conftest import BIG, CONFIG, NAME, Runner, model, safetensors
from tests.operator.fetch.hub_server import COMMIT, Hub, Repo, Request

Source = Callable[..., dict[str, Any]]
MARKER = "hf_MARKERsecret0123456789"


def test_the_facts_say_commit_size_and_shape(fetch: Runner, source: Source, hub: Hub) -> None:
    ran = fetch.run("resolve", source())
    assert ran.code == 0
    found = copies.facts(fetch.report.read_text())
    assert found
    wanted = {
        name: len(content) for name, content in model().items() if name.endswith((".safetensors", ".json"))
    }
    assert (found.revision, found.bytes, found.files) == (COMMIT, sum(wanted.values()), len(wanted))
    assert found.weight_bytes == sum(size for name, size in wanted.items() if name.endswith("safetensors"))
    assert (found.parameters, found.dtype, found.context_length) == (1_001_000, "bfloat16", 2048)
    assert shape.from_config(found.config) == shape.from_config(CONFIG)
    assert "_name_or_path" not in found.config
    assert not hub.served[BIG]


def test_a_shape_is_cut_to_what_a_termination_message_holds(fetch: Runner, source: Source, hub: Hub) -> None:
    nested = CONFIG | {
        "layer_types": ["full_attention"] * 200,
        "quantization_config": {"quant_method": "fp8", "ignored_layers": ["layer"] * 900, "bits": 8},
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
        "num_experts_per_tok": 8,
    }
    hub.repos[NAME].files["config.json"] = json.dumps(
        {"architectures": ["Gemma3"], "text_config": nested}
    ).encode()
    ran = fetch.run("resolve", source())
    text = ran.report["config"]["text_config"]
    assert "layer_types" not in text
    assert text["quantization_config"] == {"quant_method": "fp8", "bits": 8}
    assert text["rope_scaling"]["factor"] == 4.0
    assert text["num_experts_per_tok"] == 8
    assert ran.report["context_length"] == 2048


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (["*.bin"], {"pytorch_model.bin"}),
        (["original/"], {"original/consolidated.00.pth"}),
        (
            ["model*.safetensors", "config.json"],
            {"config.json", *(n for n in model() if n.endswith("tensors"))},
        ),
    ],
)
def test_patterns_choose_the_files(fetch: Runner, source: Source, files: list[str], wanted: set[str]) -> None:
    ran = fetch.run("resolve", source(files=files))
    assert ran.report["files"] == len(wanted)
    assert ran.report["bytes"] == sum(len(model()[name]) for name in wanted)


def test_a_mirror_that_lists_no_sizes_is_asked_for_each_file(fetch: Runner, source: Source, hub: Hub) -> None:
    whole = fetch.run("resolve", source()).report
    hub.repos[NAME].metadata = False
    assert fetch.run("resolve", source()).report == whole
    assert fetch.run("copy", source(), revision=COMMIT).code == 0


def test_a_gated_repository_names_the_page_and_the_field(fetch: Runner, source: Source, hub: Hub) -> None:
    hub.repos[NAME].gated = True
    hub.tokens = {"hf_other", "hf_accepted"}
    for token in (None, "hf_other"):
        if token:
            (fetch.secrets / "token").write_text(token)
        ran = fetch.run("resolve", source())
        assert (ran.code, ran.report["code"]) == (1, "ModelGated")
        assert f"{hub.url}/{NAME}" in ran.report["hint"]
        assert "spec.model.tokenSecretRef" in ran.report["hint"]
    (fetch.secrets / "token").write_text("hf_accepted\n")
    assert fetch.run("resolve", source()).code == 0


@pytest.mark.parametrize(
    ("change", "token", "code"),
    [
        ({"repo": "org/none"}, None, "TokenMissing"),
        ({"repo": "org/none"}, "hf_valid_token", "ModelNotFound"),
        ({}, MARKER, "InvalidToken"),
        ({}, "two words", "InvalidToken"),
        ({"revision": "v9"}, None, "RevisionNotFound"),
        ({"files": ["*.gguf"]}, None, "NoWeights"),
    ],
)
def test_each_refusal_has_its_code(
    fetch: Runner, source: Source, hub: Hub, change: dict[str, Any], token: str | None, code: str
) -> None:
    hub.tokens = {"hf_valid_token"}
    if token:
        (fetch.secrets / "token").write_text(token)
    ran = fetch.run("resolve", source(**change))
    assert (ran.code, ran.report["code"]) == (1, code)
    assert ran.report["hint"]
    assert MARKER not in ran.output + fetch.report.read_text()
    assert len(hub.requests) <= 2


def test_the_token_may_come_from_the_environment(
    fetch: Runner, source: Source, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos[NAME].private = True
    hub.tokens = {"hf_valid_token"}
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "hf_valid_token")
    assert fetch.run("resolve", source()).code == 0


def test_a_hub_that_is_busy_is_asked_again(fetch: Runner, source: Source, hub: Hub) -> None:
    answers = [503, 429, 200]

    def busy(request: Request) -> None:
        if (status := answers.pop(0) if answers else 200) != 200:
            request.refuse(status)

    hub.fault = busy
    assert fetch.run("resolve", source()).code == 0


def test_a_hub_that_does_not_answer_is_named_with_the_last_error(fetch: Runner, source: Source) -> None:
    ran = fetch.run("resolve", source(endpoint="http://user:password@127.0.0.1:9"))
    assert ran.report["code"] == "HubUnreachable"
    assert "127.0.0.1:9 failed 3 times in a row" in ran.report["message"]
    assert "refused" in ran.report["message"]
    assert "password" not in ran.output + str(ran.report)


def test_a_page_of_a_proxy_is_not_taken_for_the_hub(fetch: Runner, source: Source, hub: Hub) -> None:
    def portal(request: Request) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "13")
        request.end_headers()
        request.wfile.write(b"<html></html>")
        request.close_connection = True

    hub.fault = portal
    assert fetch.run("resolve", source()).report["code"] == "HubUnreachable"


def test_a_repository_without_weights_or_with_a_choice_of_them_says_so(
    fetch: Runner, source: Source, hub: Hub
) -> None:
    hub.repos["org/empty"] = Repo({"README.md": b"#"})
    hub.repos["org/quants"] = Repo({"a-Q4.gguf": b"x", "a-Q8.gguf": b"y"}, lfs={"a-Q4.gguf"})
    hub.repos["org/loose"] = Repo({"model.safetensors": safetensors(4)})
    assert fetch.run("resolve", source("org/empty")).report["code"] == "NoWeights"
    ran = fetch.run("resolve", source("org/quants"))
    assert ran.report["code"] == "NoWeights"
    assert "a-Q4.gguf" in ran.report["message"]
    assert "source.hf.files" in ran.report["hint"]
    assert fetch.run("resolve", source("org/quants", files=["*Q4*"])).code == 0
    assert fetch.run("resolve", source("org/loose")).report["code"] == "ModelNotFound"


def test_an_index_that_names_a_missing_shard_is_refused(fetch: Runner, source: Source, hub: Hub) -> None:
    del hub.repos[NAME].files[BIG]
    ran = fetch.run("resolve", source())
    assert ran.report["code"] == "WeightsIncomplete"
    assert BIG in ran.report["message"]


def test_a_model_larger_than_the_volume_is_refused_before_any_copy(fetch: Runner, source: Source) -> None:
    ran = fetch.run("resolve", source(), capacity=1_000_000)
    assert ran.report["code"] == "VolumeTooSmall"
    assert ran.report["availableBytes"] == 1_000_000
    assert ran.report["requiredBytes"] > 2_000_000
    assert "1Gi" in ran.report["hint"]


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"hf": {}}', '{"hf": {"repo": "../x"}}', '{"hf": {"repo": "a/b"}, "pvc": {}}',
     '{"hf": {"repo": "a/b", "endpoint": "ftp://x"}}', '{"s3": {"uri": "http://b"}}', '{"pvc": {"path": "a/../.."}}'],
)  # fmt: skip
def test_a_source_that_cannot_be_meant_is_bad_usage(fetch: Runner, text: str) -> None:
    from llmservice_operator.fetch import command

    assert command.run(command.Options("resolve", text, fetch.folder, fetch.report)) == 2
    assert json.loads(fetch.report.read_text())["code"] == "InvalidSource"
