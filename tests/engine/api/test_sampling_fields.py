"""Each field that says how tokens are chosen, over HTTP, with the real model."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import openai
import pytest

from tests.engine.api import sse
from tests.engine.api.server_process import NAMES

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
FRANCE = "The capital of France is"
PARIS = 7042  # " Paris"
ALPHABET = "ABCDEFGHIJKLMNOP\n" * 3 + "ABC"  # goes on with DEF, GH, I, J, K, LM, N, OP


def completed(http: httpx.Client, prompt: object = FRANCE, **fields: Any) -> dict[str, Any]:
    body = {"model": NAMES[0], "prompt": prompt, "temperature": 0, "max_tokens": 6} | fields
    response = http.post(COMPLETIONS, json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def text(http: httpx.Client, prompt: object = FRANCE, **fields: Any) -> str:
    return str(completed(http, prompt, **fields)["choices"][0]["text"])


def answered(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    question = [{"role": "user", "content": "What is the capital of France?"}]
    response = http.post(CHAT, json={"model": NAMES[0], "messages": question, "temperature": 0} | fields)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def tokens(http: httpx.Client, said: str) -> list[int]:
    return list(http.post("/tokenize", json={"prompt": said}).json()["tokens"])


def test_a_bias_forbids_a_token_or_brings_it(http: httpx.Client) -> None:
    """A25"""
    assert text(http).startswith(" Paris")
    assert not text(http, logit_bias={str(PARIS): -100}).startswith(" Paris")
    assert text(http, "One, two,", logit_bias={str(PARIS): 100}, max_tokens=2) == " Paris Paris"


def test_penalties_end_a_repetition_and_a_reward_begins_one(http: httpx.Client) -> None:
    """B16"""
    echo = "red red red red red red red red"
    assert text(http, echo, max_tokens=4) == " red red red red"
    for wish in (
        {"frequency_penalty": 2},
        {"presence_penalty": 2, "frequency_penalty": 2},
        {"repetition_penalty": 5},
    ):
        assert text(http, echo, max_tokens=40, **wish).count(" red") < 20, wish
    assert text(http, echo, max_tokens=2, frequency_penalty=2).startswith(" red"), "the prompt does not count"
    assert not text(http, echo, max_tokens=2, repetition_penalty=5).startswith(" red"), "here it does"


def test_a_bad_word_does_not_come_however_it_is_spelt(http: httpx.Client) -> None:
    for words in (["Paris"], [" Paris"], ["the city", "Paris"]):
        assert "Paris" not in text(http, bad_words=words, max_tokens=20)
    assert text(http, bad_words=["Paris is"], max_tokens=1) == " Paris"


def test_no_end_comes_before_the_least_number_of_tokens(http: httpx.Client) -> None:
    assert answered(http)["usage"]["completion_tokens"] == 8
    assert answered(http, min_tokens=20, max_tokens=20)["usage"]["completion_tokens"] == 20
    assert text(http, ALPHABET, stop="GH", min_tokens=0) == "DEF"
    assert text(http, ALPHABET, stop="GH", min_tokens=2) == "DEFGHIJKLM", (
        "no stop string is looked for before"
    )


def test_ignore_eos_leaves_the_request_s_own_stop_tokens(http: httpx.Client) -> None:
    """As vLLM does."""
    own = completed(http, stop_token_ids=[PARIS], ignore_eos=True)["choices"][0]
    assert (own["text"], own["finish_reason"]) == ("", "stop")
    ended, on = answered(http, max_tokens=12), answered(http, max_tokens=12, ignore_eos=True)
    assert (ended["usage"]["completion_tokens"], ended["choices"][0]["finish_reason"]) == (8, "stop")
    assert (on["usage"]["completion_tokens"], on["choices"][0]["finish_reason"]) == (12, "length")


def test_special_tokens_and_stop_strings_may_be_shown(http: httpx.Client) -> None:
    hidden = answered(http, max_tokens=9, ignore_eos=True)["choices"][0]["message"]["content"]
    shown = answered(http, max_tokens=9, ignore_eos=True, skip_special_tokens=False)
    assert hidden.startswith("The capital of France is Paris.")
    assert "<|im_end|>" not in hidden
    assert "Paris.<|im_end|>" in shown["choices"][0]["message"]["content"]
    assert text(http, ALPHABET, stop="GHI", include_stop_str_in_output=True) == "DEFGHI"


def test_several_answers_are_numbered_and_differ_and_the_prompt_counts_once(http: httpx.Client) -> None:
    """A45"""
    one = completed(http)["usage"]["prompt_tokens"]
    for seed in (None, 11):
        answer = completed(http, n=4, temperature=1.5, seed=seed)
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        assert len({choice["text"] for choice in answer["choices"]}) > 1
        assert answer["usage"]["prompt_tokens"] == one
        assert answer["usage"]["completion_tokens"] == 24
    again = completed(http, n=4, temperature=1.5, seed=11)
    assert again["choices"] == answer["choices"]


def test_several_streamed_answers_are_those_of_the_whole(http: httpx.Client) -> None:
    """A45"""
    prompts = [FRANCE, "One, two,"]
    asked = {"n": 3, "temperature": 1.2, "seed": 5}
    whole = completed(http, prompts, **asked)["choices"]
    body = {"model": NAMES[0], "prompt": prompts, "max_tokens": 6} | asked
    pieces: Counter[int] = Counter()
    texts = [""] * 6
    for chunk in sse.events(http, COMPLETIONS, body):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
            pieces[choice["index"]] += choice["finish_reason"] is not None
    assert texts == [choice["text"] for choice in whole]
    assert pieces == dict.fromkeys(range(6), 1)


def test_of_best_of_answers_the_likeliest_are_told(http: httpx.Client) -> None:
    asked = {"temperature": 1.5, "seed": 3, "logprobs": 0}
    every = completed(http, n=5, **asked)["choices"]
    mean = [sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"]) for c in every]
    ranked = sorted(range(5), key=lambda index: -mean[index])
    best = completed(http, n=2, best_of=5, **asked)
    assert [choice["text"] for choice in best["choices"]] == [every[index]["text"] for index in ranked[:2]]
    assert best["usage"]["completion_tokens"] == 30, "all that was generated is counted"
    (silent,) = completed(http, best_of=5, temperature=1.5, seed=3)["choices"]
    assert (silent["text"], silent["logprobs"]) == (every[ranked[0]]["text"], None)


def test_a_prompt_is_cut_to_its_last_tokens(http: httpx.Client) -> None:
    long = "nothing at all " * 20 + "One, two, three,"
    (kept,) = {len(tokens(http, "One, two, three,"))}
    assert completed(http, long, truncate_prompt_tokens=kept)["usage"]["prompt_tokens"] == kept
    assert text(http, long, truncate_prompt_tokens=-1) == text(http, long), "it fits as it is"


def test_min_p_of_1_and_top_p_of_0_leave_the_likeliest(http: httpx.Client) -> None:
    assert text(http, temperature=2, min_p=1) == text(http) == text(http, temperature=2, top_p=0)


def test_each_chunk_tells_the_usage_so_far_where_that_is_asked(http: httpx.Client) -> None:
    body = {"model": NAMES[0], "prompt": FRANCE, "max_tokens": 5, "temperature": 0}
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, last = sse.events(http, COMPLETIONS, body | {"stream_options": options})
    told = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert told == sorted(told)
    assert (told[-1], last["choices"], last["usage"]["completion_tokens"]) == (5, [], 5)


def test_openai_s_client_gives_every_field_of_its_own(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model=NAMES[0], messages=[{"role": "user", "content": "Name three colours."}], n=2, seed=4,
        temperature=0.7, top_p=0.9, presence_penalty=0.5, frequency_penalty=0.5, logit_bias={"7": -5},
        logprobs=True, top_logprobs=2, max_completion_tokens=8, stop=["\n\n"], user="u", metadata={"a": "b"},
        response_format={"type": "text"}, parallel_tool_calls=True, service_tier="auto", store=False,
    )  # fmt: skip
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert all(choice.logprobs is not None for choice in answer.choices)


@pytest.mark.parametrize("priority", [-1, 0, 7, None])
def test_a_priority_changes_no_text(http: httpx.Client, priority: int | None) -> None:
    assert text(http, priority=priority) == text(http)
