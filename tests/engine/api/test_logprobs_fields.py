"""Log probabilities in the shapes of both endpoints, whole and streamed."""

from __future__ import annotations

import math
from typing import Any

import httpx
import openai
import pytest

from tests.engine.api import sse
from tests.engine.api.server_process import NAMES

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
FRANCE = "The capital of France is"
FRANCE_IDS = [504, 3575, 282, 4649, 314]


def completion(**fields: Any) -> dict[str, Any]:
    return {"model": NAMES[0], "prompt": FRANCE, "temperature": 0, "max_tokens": 4} | fields


def chat(**fields: Any) -> dict[str, Any]:
    question = [{"role": "user", "content": "What is the capital of France?"}]
    return {"model": NAMES[0], "messages": question, "temperature": 0, "max_tokens": 4} | fields


@pytest.mark.parametrize("top", [{}, {"top_logprobs": None}, {"top_logprobs": 0}])
def test_a_chat_tells_each_token_s_own_logprob_and_no_others(http: httpx.Client, top: dict[str, Any]) -> None:
    """A21"""
    (choice,) = http.post(CHAT, json=chat(logprobs=True, **top)).json()["choices"]
    content = choice["logprobs"]["content"]
    assert "".join(one["token"] for one in content) == choice["message"]["content"]
    assert all(one["top_logprobs"] == [] and one["logprob"] <= 0 for one in content)
    assert [bytes(one["bytes"]).decode() for one in content] == [one["token"] for one in content]


def test_a_chat_tells_the_likeliest_best_first(sdk: openai.OpenAI) -> None:
    (choice,) = sdk.chat.completions.create(**chat(logprobs=True, top_logprobs=20)).choices
    assert choice.logprobs is not None
    for one in choice.logprobs.content or ():
        best = [other.logprob for other in one.top_logprobs]
        assert best == sorted(best, reverse=True)
        assert len(best) == 20
        assert (one.token, one.logprob) == (one.top_logprobs[0].token, best[0]), "greedy takes the likeliest"
        assert sum(map(math.exp, best)) <= 1 + 1e-6


def test_streamed_logprobs_are_those_of_the_whole_on_both_endpoints(http: httpx.Client) -> None:
    whole = http.post(CHAT, json=chat(logprobs=True, top_logprobs=2)).json()["choices"][0]["logprobs"]
    chunks = sse.events(http, CHAT, chat(logprobs=True, top_logprobs=2))
    told = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert [one for part in told if part for one in part["content"]] == whole["content"]
    raw = http.post(COMPLETIONS, json=completion(logprobs=2)).json()["choices"][0]["logprobs"]
    parts = [
        chunk["choices"][0]["logprobs"] for chunk in sse.events(http, COMPLETIONS, completion(logprobs=2))
    ]
    for field, values in raw.items():
        assert [one for part in parts if part for one in part[field]] == values


def test_a_completion_with_0_tells_each_token_s_own(http: httpx.Client) -> None:
    """A21"""
    (choice,) = http.post(COMPLETIONS, json=completion(logprobs=0)).json()["choices"]
    told = choice["logprobs"]
    assert "".join(told["tokens"]) == choice["text"]
    assert [list(top) for top in told["top_logprobs"]] == [[token] for token in told["tokens"]]
    assert told["text_offset"] == [len("".join(told["tokens"][:n])) for n in range(len(told["tokens"]))]


def test_an_echoed_prompt_is_told_from_its_first_token_on(http: httpx.Client) -> None:
    """A23: as lm-evaluation-harness asks."""
    body = completion(prompt=FRANCE_IDS, echo=True, logprobs=1, max_tokens=1, seed=1234)
    (choice,) = http.post(COMPLETIONS, json=body).json()["choices"]
    told = choice["logprobs"]
    assert choice["text"] == FRANCE + " Paris"
    assert told["tokens"] == ["The", " capital", " of", " France", " is", " Paris"]
    assert told["text_offset"] == [0, 3, 11, 14, 21, 24]
    assert (told["token_logprobs"][0], told["top_logprobs"][0]) == (None, None)
    assert all(logprob < 0 for logprob in told["token_logprobs"][1:])
    assert max(told["top_logprobs"][4].values()) >= told["token_logprobs"][4]
    text_prompt = http.post(COMPLETIONS, json=body | {"prompt": FRANCE}).json()
    assert text_prompt["choices"] == [choice]
    batch = http.post(COMPLETIONS, json=body | {"prompt": [FRANCE_IDS, FRANCE_IDS[:2]]}).json()["choices"]
    assert batch[0]["logprobs"]["tokens"] == told["tokens"]
    assert batch[0]["logprobs"]["token_logprobs"][1:] == pytest.approx(told["token_logprobs"][1:], abs=0.05)


@pytest.mark.parametrize("stream", [False, True])
def test_only_the_prompt_is_told_where_no_token_is_wanted(http: httpx.Client, stream: bool) -> None:
    """A23"""
    body = completion(echo=True, logprobs=0, max_tokens=0)
    if stream:
        chunks = sse.events(http, COMPLETIONS, body)
        assert sse.completion_text(chunks) == FRANCE
        told = [one for chunk in chunks for one in (chunk["choices"][0]["logprobs"] or {}).get("tokens", ())]
    else:
        answer = http.post(COMPLETIONS, json=body).json()
        assert (answer["choices"][0]["text"], answer["usage"]["completion_tokens"]) == (FRANCE, 0)
        assert answer["choices"][0]["finish_reason"] == "length"
        told = answer["choices"][0]["logprobs"]["tokens"]
    assert "".join(told) == FRANCE


def test_prompt_logprobs_come_by_token_id_as_vllm_tells_them(http: httpx.Client) -> None:
    (choice,) = http.post(COMPLETIONS, json=completion(prompt_logprobs=2)).json()["choices"]
    first, *others = choice["prompt_logprobs"]
    assert first is None
    for token, told in zip(FRANCE_IDS[1:], others, strict=True):
        assert str(token) in told
        assert len(told) in (2, 3)
        assert {one["rank"] for one in told.values()} >= {1, 2}
    assert others[-1]["314"]["decoded_token"] == " is"
    as_chat = http.post(CHAT, json=chat(prompt_logprobs=0)).json()
    assert len(as_chat["prompt_logprobs"]) == as_chat["usage"]["prompt_tokens"]


def test_logprobs_are_always_json_whatever_is_cut_or_forbidden(http: httpx.Client) -> None:
    """A22"""
    for wish in ({"top_k": 1, "temperature": 1}, {"logit_bias": {"7042": -100}}, {"bad_words": ["Paris"]}):
        body = completion(logprobs=5, echo=True, **wish)
        response = http.post(COMPLETIONS, json=body)
        assert response.status_code == 200
        told = response.json()["choices"][0]["logprobs"]
        assert all(math.isfinite(one) for one in told["token_logprobs"][1:])


def test_a_character_of_several_tokens_is_told_as_bytes(http: httpx.Client) -> None:
    (choice,) = http.post(CHAT, json=chat(messages=[{"role": "user", "content": "🚀🚀🚀🚀 repeat"}], logprobs=True,
                                          logit_bias={}, max_tokens=8)).json()["choices"]  # fmt: skip
    content = choice["logprobs"]["content"]
    said = b"".join(bytes(one["bytes"]) for one in content).decode(errors="replace")
    assert said == choice["message"]["content"]
    rocket = http.post("/tokenize", json={"prompt": "🚀"}).json()["tokens"]
    body = completion(prompt=rocket * 4, echo=True, logprobs=0, max_tokens=0)
    tokens = http.post(COMPLETIONS, json=body).json()["choices"][0]["logprobs"]["tokens"]
    assert len(tokens) == 4 * len(rocket)
    assert any(one.startswith("bytes:") for one in tokens) == (len(rocket) > 1)
