"""What bad input gets: a 4xx in OpenAI's shape that names the field, before any stream, and the server goes on."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests.engine.api.server_process import NAMES

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
MESSAGES = [{"role": "user", "content": "hi"}]

pytestmark = pytest.mark.usefixtures("still_serves")


def refusal(response: httpx.Response, status: int = 400) -> dict[str, Any]:
    """The error object. Checks its shape (A37)."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    body = response.json()
    assert body.keys() == {"error"}
    error: dict[str, Any] = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert error["code"] is None or isinstance(error["code"], str)
    return error


def chat(http: httpx.Client, **fields: Any) -> httpx.Response:
    return http.post(CHAT, json={"model": NAMES[0], "messages": MESSAGES, "max_tokens": 1} | fields)


def complete(http: httpx.Client, prompt: object, **fields: Any) -> httpx.Response:
    return http.post(COMPLETIONS, json={"model": NAMES[0], "prompt": prompt} | fields)


@pytest.mark.parametrize(
    "body",
    [
        b"{x}",
        b"null",
        b'"s"',
        b"[]",
        b"",
        b"7",
        b"\xff\xfe",
        b'{"a":NaN}',
        b"[" * 100_000,
        b'{"a":"\\ud800"}',
    ],
)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_body_that_is_no_json_object(http: httpx.Client, path: str, body: bytes) -> None:
    """A35: a 4xx, for a 5xx would be sent again and again."""
    assert refusal(http.post(path, content=body))["code"] == "invalid_json"


def test_a_body_needs_no_content_type(http: httpx.Client) -> None:
    """A35: what counts is whether it is JSON; `curl -d` calls it a form."""
    body = b'{"model": "smollm2", "prompt": "hi", "max_tokens": 1}'
    assert http.post(COMPLETIONS, content=body).status_code == 200
    assert http.post(COMPLETIONS, content=body, headers={"Content-Type": "text/plain"}).status_code == 200


def test_a_body_that_is_too_large(http: httpx.Client) -> None:
    assert refusal(http.post(COMPLETIONS, content=b" " * (17 << 20)), 413)["code"] == "body_too_large"


@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_model_names_the_served_ones(http: httpx.Client, stream: bool) -> None:
    """A34: before any event of a stream."""
    error = refusal(chat(http, model="nope", stream=stream), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert all(name in error["message"] for name in NAMES)
    assert refusal(complete(http, "x", model="nope", stream=stream), 404)["code"] == "model_not_found"
    assert refusal(http.get("/v1/models/nope"), 404)["code"] == "model_not_found"


def test_openai_s_client_raises_its_own_errors(sdk: openai.OpenAI) -> None:
    """A37"""
    with pytest.raises(openai.NotFoundError, match="does not exist") as missing:
        sdk.chat.completions.create(model="nope", messages=[{"role": "user", "content": "x"}])
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="temperature") as bad:
        sdk.completions.create(model=NAMES[0], prompt="x", temperature=7)
    assert bad.value.param == "temperature"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"seed": 2**64}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"stop": ["1", "2", "3", "4", "5"]}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": [1]}, "stop[0]"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"model": None}, "model"),
        ({"model": 7}, "model"),
    ],
)
def test_a_field_out_of_its_bounds_is_named(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    """A13, A46"""
    assert refusal(chat(http, **fields))["param"] == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"min_p": 1.1}, "min_p"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"logit_bias": {"999999": 5}}, "logit_bias"),
        ({"logit_bias": {"AI": -100}}, "logit_bias"),
        ({"logit_bias": {"7": 200}}, "logit_bias"),
        ({"logit_bias": {"7": "much"}}, "logit_bias[...]"),
        ({"logit_bias": [7]}, "logit_bias"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": 3}, "logprobs"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"min_tokens": 2}, "min_tokens"),
        ({"bad_words": [" "]}, "bad_words"),
        ({"bad_words": "no"}, "bad_words"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"priority": 2**31}, "priority"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"structured_outputs": {"regexp": "a"}}, "structured_outputs"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"add_generation_prompt": True, "continue_final_message": True}, "continue_final_message"),
        ({"continue_final_message": True}, "continue_final_message"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_wish_is_named_before_any_event(
    http: httpx.Client, fields: dict[str, Any], param: str, stream: bool
) -> None:
    """A25, A38"""
    assert refusal(chat(http, **{"stream": stream} | fields))["param"] == param


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"foo": "bar"}}}}},
            "response_format.json_schema.schema",
        ),
        ({"guided_json": {"type": "wolf"}}, "guided_json"),
        ({"guided_json": "{"}, "guided_json"),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex"),
        ({"guided_grammar": "start: nowhere"}, "guided_grammar"),
        (
            {
                "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": 1}}}}],
                "tool_choice": "required",
            },
            "tools",
        ),
    ],
)  # fmt: skip
def test_a_schema_or_grammar_that_is_none_is_named_before_any_event(
    http: httpx.Client, fields: dict[str, Any], param: str, stream: bool
) -> None:
    """A43"""
    assert refusal(chat(http, stream=stream, **fields))["param"] == param


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"functions": [{"name": "f"}]},
        {"best_of": 2},
        {"echo": True},
        {"use_beam_search": True},
        {"length_penalty": 2},
        {"allowed_token_ids": [1]},
        {"return_token_ids": True},
        {"modalities": ["text", "audio"]},
        {"audio": {"voice": "x"}},
        {"prediction": {"type": "content", "content": "x"}},
        {"reasoning_effort": "high"},
        {"verbosity": "low"},
        {"web_search_options": {}},
        {"chat_template": "x"},
    ],
)
def test_a_known_field_that_is_not_served_is_refused_by_name(
    http: httpx.Client, fields: dict[str, Any]
) -> None:
    """A42"""
    error = refusal(chat(http, **fields))
    (name,) = fields
    assert (error["param"], error["code"]) == (name, "unsupported_parameter")
    assert name in error["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"suffix": "x"},
        {"logprobs": 21},
        {"logprobs": -1},
        {"n": 129},
        {"max_tokens": -1},
        {"best_of": 2, "n": 3},
        {"best_of": 2, "stream": True},
        {"prompt_embeds": "AAAA"},
        {"use_beam_search": True},
        {"echo": 1},
    ],
)
def test_the_same_holds_for_raw_completions(http: httpx.Client, fields: dict[str, Any]) -> None:
    assert refusal(complete(http, "x", **fields))["param"] == next(iter(fields))


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([-1], "token id -1 is out of range"),
        ([49152], "token id 49152 is out of range: the model knows 0 to 49151"),
        ([4294967294], "token id 4294967294 is out of range"),
        ([2**70], "out of range"),
        ([[1], [-5]], "token id -5 is out of range"),
        ([True], "integer"),
        ([1.5], "integer"),
        (["a", 1], "integer"),
        ([1, [2]], "integer"),
    ],
)
def test_token_ids_that_the_model_does_not_know(http: httpx.Client, prompt: object, words: str) -> None:
    """A27"""
    assert words in refusal(complete(http, prompt))["message"]


@pytest.mark.parametrize("prompt", ["", [""], [], [[]], None, {"a": 1}, 7])
def test_an_empty_prompt(http: httpx.Client, prompt: object) -> None:
    """A28"""
    error = refusal(complete(http, prompt))
    assert error["param"].startswith("prompt")


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_longer_than_the_context_gets_the_true_figures(http: httpx.Client, stream: bool) -> None:
    """A29, A38: a 400 before any event, on both endpoints."""
    prompt_too_long = refusal(complete(http, [5] * 8300, stream=stream))
    together = refusal(complete(http, [5] * 8000, max_tokens=500, stream=stream))
    as_chat = refusal(chat(http, max_tokens=8192, stream=stream))
    long_chat = refusal(chat(http, messages=[{"role": "user", "content": "word " * 9000}], stream=stream))
    for error in (prompt_too_long, together, as_chat, long_chat):
        assert error["code"] == "context_length_exceeded"
        assert "8192" in error["message"]
    assert "8300" in prompt_too_long["message"]
    assert "8000" in together["message"]
    assert "500" in together["message"]
    assert (together["param"], as_chat["param"]) == ("prompt", "messages")


def test_unknown_paths_and_wrong_methods(http: httpx.Client) -> None:
    """A37"""
    assert refusal(http.get("/v1/nothing"), 404)["code"] == "not_found"
    wrong = http.get(CHAT)
    assert refusal(wrong, 405)["code"] == "method_not_allowed"
    assert wrong.headers["allow"] == "POST"
    assert refusal(http.post("/v1/models"), 405)["code"] == "method_not_allowed"
