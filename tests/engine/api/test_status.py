"""Probes, the model list, request ids, metrics, and clients that go away."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.engine.api.server_process import NAMES, Server

LABELS = {"model_name": NAMES[0], "engine": "0"}
LONG = {"model": NAMES[0], "prompt": "Once", "max_tokens": 4000, "temperature": 0, "ignore_eos": True}

IDLE_SECONDS = 3  # about one, and the step under way on a machine that does other things too

Samples = Mapping[str, float]


def samples(http: httpx.Client, **labels: str) -> Samples:
    """Every sample of ``/metrics`` that carries ``labels``, by name; those of a histogram's buckets left out."""
    families = text_string_to_metric_families(http.get("/metrics").text)
    found = (sample for family in families for sample in family.samples if "le" not in sample.labels)
    return {sample.name: sample.value for sample in found if labels.items() <= sample.labels.items()}


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize("path", ["/health", "/ready", "/ping"])
def test_a_loaded_server_is_healthy_and_ready(http: httpx.Client, path: str) -> None:
    assert http.get(path).json() == {"status": "ok"}
    assert http.head(path).status_code == 200


def test_models_lists_the_served_names_the_first_first(http: httpx.Client, sdk: openai.OpenAI) -> None:
    listed = http.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [entry["id"] for entry in listed["data"]] == list(NAMES)
    assert {entry["max_model_len"] for entry in listed["data"]} == {8192}
    assert [entry.id for entry in sdk.models.list()] == list(NAMES)
    assert sdk.models.retrieve(NAMES[1]).id == NAMES[1]
    assert http.get("/v1/models/" + NAMES[1]).json()["id"] == NAMES[1]


def test_version_says_what_is_installed(http: httpx.Client) -> None:
    assert http.get("/version").json()["version"].count(".") == 2


def test_a_request_id_is_returned_and_logged(http: httpx.Client, server: Server) -> None:
    body = {"model": NAMES[0], "prompt": "a secret prompt", "max_tokens": 1}
    answer = http.post("/v1/completions", json=body, headers={"X-Request-Id": "from-the-client-7"})
    assert answer.headers["x-request-id"] == "from-the-client-7"
    streamed = http.post(
        "/v1/completions", json=body | {"stream": True}, headers={"X-Request-Id": "streamed-8"}
    )
    assert streamed.headers["x-request-id"] == "streamed-8"
    made = http.get("/v1/models", headers={"X-Request-Id": "two words\tand more"}).headers["x-request-id"]
    assert len(made) == 32
    assert wait_for(lambda: "request_id=streamed-8" in server.log, 2)
    assert "request_id=from-the-client-7" in server.log
    assert "secret prompt" not in server.log


def test_unknown_fields_make_one_log_line_with_names_only(http: httpx.Client, server: Server) -> None:
    """A32"""
    body = {"model": NAMES[0], "prompt": "x", "max_tokens": 1, "zap": "hidden-value", "zip": 1, "user": "u"}
    assert http.post("/v1/completions", json=body).status_code == 200
    assert server.log.count("fields=zap,zip") == 1
    assert "hidden-value" not in server.log


def test_metrics_move_as_the_request_says(http: httpx.Client) -> None:
    before = samples(http, **LABELS)
    stopped_before = samples(http, finished_reason="length")["vllm:request_success_total"]
    body = {"model": NAMES[0], "prompt": "The capital of France is", "max_tokens": 6, "temperature": 0}
    assert http.post("/v1/completions", json=body).status_code == 200
    after = samples(http, **LABELS)

    def moved(name: str) -> float:
        return after[name] - before[name]

    assert moved("vllm:prompt_tokens_total") == 5
    assert moved("vllm:generation_tokens_total") == 6
    assert samples(http, finished_reason="length")["vllm:request_success_total"] - stopped_before == 1
    for histogram in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_prompt_tokens",
                      "request_generation_tokens", "request_params_max_tokens",
                      "request_time_per_output_token_seconds"):  # fmt: skip
        assert moved(f"vllm:{histogram}_count") == 1, histogram
    assert moved("vllm:inter_token_latency_seconds_count") == 5
    assert moved("vllm:request_prompt_tokens_sum") == 5
    assert moved("vllm:request_generation_tokens_sum") == 6
    assert moved("vllm:iteration_tokens_total_sum") == 10  # the prompt's 5, then 5 of the 6 new ones
    assert moved("vllm:iteration_tokens_total_count") == 6
    first, whole = (
        moved("vllm:time_to_first_token_seconds_sum"),
        moved("vllm:e2e_request_latency_seconds_sum"),
    )
    assert 0 < first < whole < 30


def test_static_metrics_describe_the_model(http: httpx.Client) -> None:
    now = samples(http, **LABELS)
    assert now["llmservice:model_load_seconds"] > 0
    memory = {
        kind: samples(http, **LABELS, kind=kind)["llmservice:memory_bytes"]
        for kind in ("weights", "kv_cache", "activations", "overhead", "available")
    }
    assert 260e6 < memory["weights"] < 600e6
    assert memory["weights"] + memory["kv_cache"] + memory["activations"] <= memory["available"]
    assert now["llmservice:kv_cache_tokens"] >= now["llmservice:kv_cache_sequences"] * 8192 > 0
    assert now["vllm:cache_config_info"] == 1
    assert now["vllm:num_preemptions_total"] == 0
    assert {now["vllm:num_requests_running"], now["vllm:num_requests_waiting"]} == {0}


def test_gauges_show_a_running_request_and_return_to_zero(http: httpx.Client) -> None:
    with http.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as response:
        lines = response.iter_lines()
        next(lines)
        now = samples(http, **LABELS)
        assert now["vllm:num_requests_running"] == 1
        assert 0 < now["vllm:kv_cache_usage_perc"] < 1
    assert wait_for(lambda: idle(http), IDLE_SECONDS)


def idle(http: httpx.Client) -> bool:
    now = samples(http, **LABELS)
    return (
        now["vllm:num_requests_running"]
        == now["vllm:num_requests_waiting"]
        == now["vllm:kv_cache_usage_perc"]
        == 0
    )


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_blocks_at_once(http: httpx.Client, stream: bool) -> None:
    """A48"""
    aborted = samples(http, finished_reason="abort")["vllm:request_success_total"]
    with socket.create_connection((http.base_url.host, http.base_url.port or 80)) as leaving:
        body = json.dumps(LONG | {"stream": stream}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        leaving.sendall(head.encode() + body)
        assert wait_for(lambda: samples(http, **LABELS)["vllm:num_requests_running"] == 1, 5)
    assert wait_for(lambda: idle(http), IDLE_SECONDS)
    assert samples(http, finished_reason="abort")["vllm:request_success_total"] == aborted + 1


def test_sixteen_at_once_each_get_their_own_answer(http: httpx.Client, sdk: openai.OpenAI) -> None:
    prompts = [f"{n}, {n + 1}, {n + 2}, {n + 3}," for n in range(10, 26)]
    body: dict[str, Any] = {"model": NAMES[0], "prompt": prompts, "max_tokens": 4, "temperature": 0}
    texts = [choice.text for choice in sdk.completions.create(**body).choices]
    right = [text.strip().startswith(str(n + 4)) for n, text in zip(range(10, 26), texts, strict=True)]
    assert sum(right) >= 12, json.dumps(texts)  # the model errs now and then; a mix-up would fail nearly all
