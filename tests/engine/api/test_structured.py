"""Answers that are held to a form, over HTTP, with the real model; a small one says nonsense, but valid nonsense."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from tests.engine.api import sse
from tests.engine.api.server_process import NAMES

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"enum": [20, 30]}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def chat(**fields: Any) -> dict[str, Any]:
    question = [{"role": "user", "content": "Invent a person, as JSON."}]
    return {"model": NAMES[0], "messages": question, "temperature": 0, "max_tokens": 60} | fields


def content(http: httpx.Client, **fields: Any) -> str:
    response = http.post(CHAT, json=chat(**fields))
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["finish_reason"] == "stop"
    return str(response.json()["choices"][0]["message"]["content"])


@pytest.mark.parametrize(
    "wish",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}},
        {"structured_outputs": {"json": PERSON}},
        {"guided_json": json.dumps(PERSON)},
    ],
    ids=["response_format", "structured_outputs", "guided_json"],
)
@pytest.mark.parametrize("temperature", [0, 1.5])
def test_a_schema_holds_under_each_of_its_names(
    http: httpx.Client, wish: dict[str, Any], temperature: float
) -> None:
    jsonschema.validate(json.loads(content(http, temperature=temperature, seed=1, **wish)), PERSON)


def test_openai_s_client_parses_its_own_types_and_streams_the_same(
    sdk: openai.OpenAI, http: httpx.Client
) -> None:
    wish: Any = {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON, "strict": True}}
    whole = sdk.chat.completions.create(**chat(response_format=wish)).choices[0].message.content
    assert sse.chat_text(sse.events(http, CHAT, chat(response_format=wish))) == whole


def test_json_object_is_an_object(http: httpx.Client) -> None:
    wish = {"response_format": {"type": "json_object"}, "stop": ["}"], "include_stop_str_in_output": True}
    response = http.post(CHAT, json=chat(max_tokens=100, **wish))
    assert response.json()["choices"][0]["message"]["content"].lstrip().startswith("{")


@pytest.mark.parametrize(
    ("wish", "pattern"),
    [
        ({"guided_choice": ["positive", "negative"]}, "positive|negative"),
        ({"structured_outputs": {"choice": ["ano", "ne 😀"]}}, "ano|ne 😀"),
        ({"guided_regex": r"\d{3}-\d{4}"}, r"\d{3}-\d{4}"),
        ({"structured_outputs": {"regex": "[xyz]{5}"}}, "[xyz]{5}"),
        ({"guided_grammar": 'start: ("ha" | "ho")~2'}, "(ha|ho){2}"),
        ({"structured_outputs": {"grammar": 'root ::= "a" [0-9] "b"'}}, "a[0-9]b"),
    ],
)
def test_choices_expressions_and_grammars_hold(
    http: httpx.Client, wish: dict[str, Any], pattern: str
) -> None:
    assert re.fullmatch(pattern, content(http, **wish))
    body = {"model": NAMES[0], "prompt": "Say", "temperature": 1, "max_tokens": 60} | wish
    assert re.fullmatch(pattern, http.post(COMPLETIONS, json=body).json()["choices"][0]["text"])


def test_several_answers_follow_one_grammar_each(http: httpx.Client) -> None:
    choices = ["red", "green", "blue", "black"]
    answer = http.post(CHAT, json=chat(guided_choice=choices, n=8, temperature=2, seed=3)).json()
    said = [choice["message"]["content"] for choice in answer["choices"]]
    assert set(said) <= set(choices)
    assert len(set(said)) > 1


def test_logprobs_under_a_grammar_are_the_model_s_own(http: httpx.Client) -> None:
    (choice,) = http.post(CHAT, json=chat(guided_choice=["zebra"], logprobs=True, top_logprobs=1)).json()[
        "choices"
    ]
    content = choice["logprobs"]["content"]
    assert "".join(one["token"] for one in content) == "zebra"
    assert content[0]["top_logprobs"][0]["token"] != content[0]["token"]


def test_a_plain_request_beside_one_with_a_grammar_says_what_it_says_alone(http: httpx.Client) -> None:
    plain = {"model": NAMES[0], "prompt": "The capital of France is", "temperature": 0, "max_tokens": 8}
    alone = http.post(COMPLETIONS, json=plain).json()["choices"]
    held = plain | {"prompt": "Quack", "guided_regex": "q{60}", "max_tokens": 100, "stream": True}
    with http.stream("POST", COMPLETIONS, json=held) as response:
        lines = response.iter_lines()
        said = next(lines)
        assert http.post(COMPLETIONS, json=plain).json()["choices"] == alone
        said += "".join(lines)
    assert "".join(re.findall(r'"text":"(q*)"', said)) == "q" * 60


@pytest.mark.parametrize("stream", [False, True])
def test_what_can_never_be_said_is_the_request_s_own_fault(http: httpx.Client, stream: bool) -> None:
    """A word that must come and must not: no 5xx, which clients would send again."""
    body = chat(guided_choice=["no"], bad_words=["no", "n"], stream=stream)
    response = http.post(CHAT, json=body)
    if stream:
        events = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
        error = json.loads(events[-2])["error"]
        assert events[-1] == "[DONE]"
    else:
        assert response.status_code == 400
        error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert "bad_words" in error["message"]
