"""Chats that go well, with OpenAI's client and without."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests.engine.api import sse
from tests.engine.api.server_process import NAMES

PATH = "/v1/chat/completions"
PARIS = "The capital of France is Paris."


def chat(question: str = "What is the capital of France?", /, **fields: Any) -> dict[str, Any]:
    return {"model": NAMES[0], "messages": [{"role": "user", "content": question}], "temperature": 0} | fields


def test_openai_s_client_gets_the_answer(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(**chat())
    assert answer.choices[0].message.content == PARIS
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == NAMES[0]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (
        37,
        37 + answer.usage.completion_tokens,
    )


def test_openai_s_client_streams_the_same_answer_under_each_served_name(sdk: openai.OpenAI) -> None:
    for name in NAMES:
        chunks = list(sdk.chat.completions.create(**chat(model=name), stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == PARIS
        assert {chunk.model for chunk in chunks} == {name}
        assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_stream_has_the_role_once_and_usage_only_when_asked(http: httpx.Client) -> None:
    """A8, A39"""
    chunks = sse.events(http, PATH, chat())
    assert [chunk["choices"][0]["delta"].get("role") for chunk in chunks] == ["assistant"] + [None] * (
        len(chunks) - 1
    )
    assert all(len(chunk["choices"]) == 1 and "usage" not in chunk for chunk in chunks)
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-2:] == [None, "stop"]


def test_asked_for_usage_comes_last_with_no_choices_and_is_null_before(http: httpx.Client) -> None:
    """A9"""
    *chunks, last = sse.events(http, PATH, chat(stream_options={"include_usage": True}))
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 37
    assert last["usage"] == http.post(PATH, json=chat()).json()["usage"]
    assert all(chunk["usage"] is None for chunk in chunks)


def test_content_may_be_text_parts(http: httpx.Client) -> None:
    """A1"""
    parts = [{"type": "text", "text": "What is the capital"}, {"type": "text", "text": "of France?"}]
    as_parts = http.post(PATH, json=chat(messages=[{"role": "user", "content": parts}])).json()
    assert (
        as_parts["choices"] == http.post(PATH, json=chat("What is the capital\nof France?")).json()["choices"]
    )


@pytest.mark.parametrize("arguments", ['{"a": 1}', "", '{"a":'])
def test_a_conversation_may_go_on_after_a_tool_call(http: httpx.Client, arguments: str) -> None:
    """A3, A5"""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    response = http.post(PATH, json=chat(messages=messages, max_tokens=2))
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 9, "max_completion_tokens": 3}, 3),
        ({"max_tokens": 1}, 1),
    ],
)
def test_the_newer_limit_of_tokens_wins(http: httpx.Client, fields: dict[str, int], tokens: int) -> None:
    """A6"""
    answer = http.post(PATH, json=chat("Count from one to twenty.", **fields)).json()
    assert answer["usage"]["completion_tokens"] == tokens
    assert answer["choices"][0]["finish_reason"] == "length"


def test_without_a_limit_a_chat_may_use_the_room_left(http: httpx.Client) -> None:
    """A31"""
    answer = http.post(PATH, json=chat("Say hello.")).json()
    assert answer["usage"]["completion_tokens"] > 16
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_null_equals_absent(http: httpx.Client) -> None:
    """A33"""
    names = ("top_p", "top_k", "stop", "seed", "tools", "tool_choice", "n", "logprobs", "top_logprobs", "logit_bias",
             "max_tokens", "max_completion_tokens", "stream", "stream_options", "response_format", "user",
             "presence_penalty", "frequency_penalty", "functions", "metadata")  # fmt: skip
    answer = http.post(PATH, json=chat(**dict.fromkeys(names))).json()
    assert answer["choices"][0]["message"]["content"] == PARIS
    assert http.post(PATH, json=chat(temperature=None, max_tokens=1)).status_code == 200


def test_unknown_fields_and_bookkeeping_are_ignored(http: httpx.Client) -> None:
    """A32"""
    extras = {"foo": {"bar": 1}, "user": "u1", "metadata": {"a": "b"}, "store": True, "service_tier": "auto"}
    messages = [{"role": "user", "name": "bob", "id": "m1", "content": "What is the capital of France?"}]
    answer = http.post(PATH, json=chat(messages=messages, **extras)).json()
    assert answer["choices"][0]["message"]["content"] == PARIS


def test_values_that_change_nothing_are_accepted(http: httpx.Client) -> None:
    neutral = {
        "n": 1, "logprobs": False, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "tools": [],
        "response_format": {"type": "text"}, "tool_choice": "none", "best_of": 1, "repetition_penalty": 1.0,
    }  # fmt: skip
    assert http.post(PATH, json=chat(**neutral)).json()["choices"][0]["message"]["content"] == PARIS


def test_tools_with_tool_choice_none_are_ignored(http: httpx.Client) -> None:
    """A42"""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    assert http.post(PATH, json=chat(tools=tools, tool_choice="none", max_tokens=1)).status_code == 200


@pytest.mark.parametrize("temperature", [1e-3, 1e-6, 1e-12])
def test_a_tiny_temperature_equals_greedy(http: httpx.Client, temperature: float) -> None:
    """A46"""
    answer = http.post(PATH, json=chat(temperature=temperature)).json()
    assert answer["choices"][0]["message"]["content"] == PARIS


def test_a_seed_gives_the_same_text_twice_and_another_seed_another(http: httpx.Client) -> None:
    def said(seed: int) -> str:
        body = chat("Tell me a story.", temperature=1.5, seed=seed, max_tokens=6)
        return str(http.post(PATH, json=body).json()["choices"][0]["message"]["content"])

    assert said(-7) == said(-7)
    assert len({said(seed) for seed in (1, 2, 3)}) > 1
