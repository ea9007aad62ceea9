"""Weights that are not whole: never Ready, or an error for the request that meets them and for no other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.api.server_process import Server, launched
from tests.engine.models import families
from tests.engine.models.families import Family

TOKENIZER_IDS = 49_152
BROKEN = 500  # the token whose embedding is not finite
SETTINGS = ("--served-model-name", "m", "--dtype", "float32")


@pytest.fixture(scope="module")
def server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One token's embedding is broken, and all that the model ever says are ids that the tokenizer does not know."""
    folder = tmp_path_factory.mktemp("broken")
    families.write(Family("llama", {"vocab_size": TOKENIZER_IDS + 8}), folder / "model")
    shutil.copy(model_folder / "tokenizer.json", folder / "model")
    tensors = load_file(folder / "model" / "model.safetensors")
    tensors["model.embed_tokens.weight"][BROKEN] = float("inf")
    head = torch.zeros_like(tensors["lm_head.weight"])
    head[-1] = torch.linspace(1, 2, head.shape[1])
    head[-2] = -head[-1]  # one of the two is the largest, whatever they multiply
    save_file(
        {**tensors, "lm_head.weight": head}, folder / "model" / "model.safetensors", metadata={"format": "pt"}
    )
    with launched([str(folder / "model"), *SETTINGS], folder) as running:
        running.wait_until("/ready", 200)
        yield running


def ask(server: Server, prompt: list[int], **fields: Any) -> httpx.Response:
    body = {"model": "m", "prompt": prompt, "max_tokens": 4, "temperature": 0, **fields}
    return httpx.post(f"{server.url}/v1/completions", json=body, timeout=60)


def assert_plain(response: httpx.Response) -> None:
    assert response.status_code == 200
    answer = response.json()
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["choices"][0]["finish_reason"] == "length"


def test_ids_that_only_the_model_knows_are_no_text(server: Server) -> None:
    """Embeddings are often padded beyond the tokenizer."""
    whole = ask(server, [5, 6, 7])
    assert_plain(whole)
    assert whole.json()["choices"][0]["text"] == ""
    streamed = ask(server, [5, 6, 7], stream=True)
    *events, last = [line for line in streamed.text.splitlines() if line]
    assert last == "data: [DONE]"
    assert json.loads(events[-1].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"


def test_logits_that_are_not_finite_are_an_error_and_neighbours_do_not_notice(server: Server) -> None:
    """B20."""
    with ThreadPoolExecutor(8) as pool:
        prompts = [[5, 6, 7 + number] if number % 2 else [5, BROKEN, number] for number in range(8)]
        answers = list(pool.map(lambda prompt: ask(server, prompt), prompts))
    for number, answer in enumerate(answers):
        if number % 2:
            assert_plain(answer)
        else:
            assert answer.status_code == 500
            assert "not finite" in answer.json()["error"]["message"]
    counted = 'vllm:request_success_total{engine="0",finished_reason="error",model_name="m"} 4.0'
    assert counted in httpx.get(server.url + "/metrics").text
    assert_plain(ask(server, [5, 6, 7]))


def test_a_stream_that_meets_them_ends_with_an_error(server: Server) -> None:
    streamed = ask(server, [5, BROKEN, 7], stream=True)
    (error,) = [json.loads(line[6:])["error"] for line in streamed.text.splitlines() if '"error"' in line]
    assert "not finite" in error["message"]
    assert_plain(ask(server, [5, 6, 7]))


def test_an_untied_model_without_its_head_never_gets_ready(model_folder: Path, tmp_path: Path) -> None:
    """B26."""
    folder = families.write(families.FAMILIES["llama"], tmp_path / "model")
    shutil.copy(model_folder / "tokenizer.json", folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with launched([str(folder), *SETTINGS], tmp_path) as server:
        assert server.exit_code(90) == 1
        report = json.loads(server.termination_log)
        assert report["code"] == "WeightsIncomplete"
        assert "lm_head.weight" in report["message"]
