"""Tools, reasoning, responses, embeddings, tokens, keys: with OpenAI's own client where it has the call."""

from __future__ import annotations

import base64
import json
import math
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openapi_spec_validator import validate

from tests.engine.api.server_process import NAMES, Server, launched

MODEL = NAMES[0]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Brno", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
ASK: list[Any] = [{"role": "user", "content": "What is the weather in Oslo?"}]
FIRST, SECOND = "first-key-0001", "second-key-0002"


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(FIRST + "\n")
    return file


@pytest.fixture(scope="module")
def guarded(model_folder: Path, key_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With every flag of this page on."""
    arguments = [
        str(model_folder), "--served-model-name", MODEL, "--api-key-file", str(key_file),
        "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3",
        "--trust-request-chat-template", "--override-generation-config", '{"temperature": 0}',
    ]  # fmt: skip
    with launched(arguments, tmp_path_factory.mktemp("guarded")) as running:
        running.wait_until("/ready", 200)
        yield running


@pytest.fixture
def keyed(guarded: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=guarded.url + "/v1", api_key=FIRST, max_retries=0)


def test_tools_need_a_parser_unless_they_are_off_or_forced(http: httpx.Client) -> None:
    """A42"""
    body = {"model": MODEL, "messages": ASK, "tools": [WEATHER], "temperature": 0, "max_tokens": 8}
    refused = http.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400
    assert "--tool-call-parser" in refused.json()["error"]["message"]
    assert http.post("/v1/chat/completions", json=body | {"tool_choice": "none"}).status_code == 200


@pytest.mark.parametrize(
    ("choice", "reason"),
    [("required", "tool_calls"), ({"type": "function", "function": {"name": "get_weather"}}, "stop")],
)
def test_a_forced_call_is_valid_whole_and_streamed(sdk: openai.OpenAI, choice: Any, reason: str) -> None:
    """A41"""
    asked: dict[str, Any] = {
        "model": MODEL, "messages": ASK, "tools": [WEATHER], "tool_choice": choice, "temperature": 0,
        "parallel_tool_calls": False,
    }  # fmt: skip
    whole = sdk.chat.completions.create(**asked).choices[0]
    (call,) = whole.message.tool_calls or ()
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] in ("Brno", "Oslo")
    assert (whole.finish_reason, whole.message.content) == (reason, None)
    chunks = list(sdk.chat.completions.create(**asked, stream=True))
    pieces = [one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or ()]
    assert [piece.function.name for piece in pieces if piece.function.name] == ["get_weather"]
    assert "".join(piece.function.arguments or "" for piece in pieces) == call.function.arguments
    assert chunks[-1].choices[0].finish_reason == reason
    assert not any(chunk.choices[0].delta.content for chunk in chunks)


def test_a_free_call_is_read_whole_and_streamed(keyed: openai.OpenAI) -> None:
    """A41: a grammar makes this small model say what a larger one says of its own accord."""
    said = (
        '<tool_call>\\n\\{"name": "get_weather", "arguments": \\{"city": "(Oslo|Brno)"\\}\\}\\n</tool_call>'
    )
    asked: dict[str, Any] = {
        "model": MODEL, "messages": ASK, "tools": [WEATHER], "tool_choice": "auto",
        "extra_body": {"guided_regex": said},
    }  # fmt: skip
    whole = keyed.chat.completions.create(**asked).choices[0]
    (call,) = whole.message.tool_calls or ()
    assert (call.function.name, whole.finish_reason, whole.message.content) == (
        "get_weather",
        "tool_calls",
        None,
    )
    assert json.loads(call.function.arguments)["city"] in ("Brno", "Oslo")
    chunks = list(keyed.chat.completions.create(**asked, stream=True))
    pieces = [one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or ()]
    assert "".join(piece.function.arguments or "" for piece in pieces) == call.function.arguments
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert not any(chunk.choices[0].delta.content for chunk in chunks)
    cut = keyed.chat.completions.create(**asked, max_tokens=8).choices[0]
    assert cut.finish_reason == "length"


def test_a_forced_call_that_is_cut_says_length(sdk: openai.OpenAI) -> None:
    """A41"""
    answer = sdk.chat.completions.create(
        model=MODEL, messages=ASK, tools=[WEATHER], tool_choice="required", max_tokens=3
    )
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "nope"}}])
def test_a_choice_that_no_tool_fits_is_refused(http: httpx.Client, choice: Any) -> None:
    tools = [WEATHER] if isinstance(choice, dict) else None
    body = {"model": MODEL, "messages": ASK, "tools": tools, "tool_choice": choice}
    error = http.post("/v1/chat/completions", json=body).json()["error"]
    assert error["param"] == "tool_choice"


def test_with_a_parser_plain_text_is_unchanged(keyed: openai.OpenAI, sdk: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": ASK, "temperature": 0, "max_tokens": 12}
    plain = sdk.chat.completions.create(**asked).choices[0].message.content
    assert keyed.chat.completions.create(**asked, tools=[WEATHER]).choices[0].message.content == plain
    chunks = keyed.chat.completions.create(**asked, tools=[WEATHER], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == plain


def test_a_template_of_the_request_may_open_the_reasoning(keyed: openai.OpenAI) -> None:
    template = "{{ messages[0].content }}<think>\n"
    asked: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "One, two, three,"}]}
    answer = keyed.chat.completions.create(
        **asked, max_tokens=6, extra_body={"chat_template": template}
    ).choices[0]
    assert answer.message.content == ""
    assert answer.message.reasoning_content  # type: ignore[attr-defined]
    hidden = keyed.chat.completions.create(
        **asked, max_tokens=6, extra_body={"chat_template": template, "include_reasoning": False}
    ).choices[0]
    assert not hidden.message.reasoning_content  # type: ignore[attr-defined]


def test_a_template_of_the_request_needs_trust(http: httpx.Client) -> None:
    body = {"model": MODEL, "messages": ASK, "chat_template": "x"}
    error = http.post("/v1/chat/completions", json=body).json()["error"]
    assert (error["param"], error["code"]) == ("chat_template", "unsupported_parameter")
    assert "--trust-request-chat-template" in error["message"]


def test_the_final_message_is_continued(http: httpx.Client) -> None:
    messages = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "One, two, three,"}]
    body = {"model": MODEL, "messages": messages, "continue_final_message": True}
    tokens = http.post("/tokenize", json=body).json()["tokens"]
    text = http.post("/detokenize", json={"tokens": tokens}).json()["prompt"]
    assert text.endswith("assistant\nOne, two, three,")
    refused = http.post("/tokenize", json=body | {"add_generation_prompt": True}).json()
    assert refused["error"]["param"] == "continue_final_message"


def test_text_becomes_tokens_and_text_again(http: httpx.Client) -> None:
    answer = http.post("/tokenize", json={"prompt": "Hello, world", "return_token_strs": True}).json()
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert answer["max_model_len"] == 8192
    assert http.post("/detokenize", json={"tokens": answer["tokens"]}).json() == {"prompt": "Hello, world"}
    for body in ({}, {"prompt": "x", "messages": ASK}, {"prompt": "a", "model": "nope"}):
        assert "error" in http.post("/tokenize", json=body).json()
    assert http.post("/detokenize", json={"tokens": [49152]}).status_code == 400


def test_vectors_have_length_1_and_like_texts_are_near(sdk: openai.OpenAI, http: httpx.Client) -> None:
    texts = ["A cat sits on the mat.", "A cat is sitting on a mat.", "Interest rates rose by 25 points."]
    answer = sdk.embeddings.create(model=MODEL, input=texts)  # the client asks for base64
    vectors = [one.embedding for one in answer.data]
    assert [one.index for one in answer.data] == [0, 1, 2]
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-4) for vector in vectors)
    near, far = (sum(a * b for a, b in zip(vectors[0], v, strict=True)) for v in vectors[1:])
    assert near > far
    asked = {"model": MODEL, "input": texts[0], "encoding_format": "float"}
    alone = http.post("/v1/embeddings", json=asked).json()
    assert alone["data"][0]["embedding"] == pytest.approx(vectors[0], abs=1e-3)
    packed = http.post("/v1/embeddings", json=asked | {"encoding_format": "base64"}).json()["data"][0][
        "embedding"
    ]
    raw = base64.b64decode(packed)
    assert list(struct.unpack(f"<{len(raw) // 4}f", raw)) == pytest.approx(vectors[0], abs=1e-3)
    ids = http.post("/tokenize", json={"prompt": texts[0]}).json()["tokens"]
    assert alone["usage"] == {"prompt_tokens": len(ids), "total_tokens": len(ids)}
    of_ids = http.post("/v1/embeddings", json=asked | {"input": [ids]}).json()
    assert of_ids["data"] == alone["data"]
    for field, value in (("dimensions", 8), ("input", ""), ("input", None), ("input", [5] * 8200)):
        error = http.post("/v1/embeddings", json=asked | {field: value}).json()["error"]
        assert error["param"].startswith(field)


def test_a_response_has_items_and_streams_typed_events(sdk: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "input": "What is the capital of France?", "temperature": 0}
    whole = sdk.responses.create(**asked)
    assert whole.output_text == "The capital of France is Paris."
    assert whole.status == "completed"
    assert whole.usage is not None
    events = list(sdk.responses.create(**asked, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [events[0].type, events[1].type, events[-1].type] == [
        "response.created", "response.in_progress", "response.completed",
    ]  # fmt: skip
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    with sdk.responses.stream(**asked) as stream:
        assert stream.get_final_response().output_text == whole.output_text
    cut = sdk.responses.create(**asked, max_output_tokens=2)
    assert cut.status == "incomplete"
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"


def test_a_response_may_call_a_function_and_go_on(sdk: openai.OpenAI) -> None:
    tool: Any = {"type": "function", **WEATHER["function"]}  # type: ignore[dict-item]
    asked: dict[str, Any] = {"model": MODEL, "tools": [tool], "temperature": 0, "parallel_tool_calls": False}
    whole = sdk.responses.create(**asked, input=ASK, tool_choice="required")
    (call,) = whole.output
    assert call.type == "function_call"
    assert json.loads(call.arguments)["city"] in ("Brno", "Oslo")
    with sdk.responses.stream(**asked, input=ASK, tool_choice="required") as stream:
        (streamed,) = stream.get_final_response().output
    assert streamed.arguments == call.arguments
    items = [
        *ASK,
        call.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": call.call_id, "output": "sun"},
    ]
    after = sdk.responses.create(**asked, input=items, tool_choice="none", max_output_tokens=4)
    assert after.output[0].type == "message"


def test_a_response_may_be_held_to_a_schema(sdk: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, 2]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    form: Any = {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    answer = sdk.responses.create(model=MODEL, input="A number?", text=form, temperature=0)
    assert json.loads(answer.output_text)["n"] in (1, 2)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"temperature": 3}, "temperature"),
        ({"max_output_tokens": 9000}, "input"),
    ],
)
def test_what_a_response_cannot_do_is_refused_by_name(
    http: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    answer = http.post("/v1/responses", json={"model": MODEL, "input": "x"} | fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_keys_guard_all_but_the_probes_and_rotate_without_a_restart(guarded: Server, key_file: Path) -> None:
    """A50, C33"""
    with httpx.Client(base_url=guarded.url) as client:
        for method, path in (
            ("GET", "/v1/models"), ("GET", f"/v1/models/{MODEL}"), ("POST", "/v1/chat/completions"),
            ("POST", "/v1/completions"), ("POST", "/v1/responses"), ("POST", "/v1/embeddings"),
            ("POST", "/tokenize"), ("POST", "/detokenize"), ("GET", "/nothing"),
        ):  # fmt: skip
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": FIRST}):
                answer = client.request(method, path, headers=headers)
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key"), path
                assert "x-request-id" in answer.headers
        for path in ("/health", "/ready", "/ping", "/version", "/metrics", "/load", "/openapi.json"):
            assert client.get(path).status_code == 200, path
        assert client.get("/v1/models", headers={"Authorization": f"Bearer {FIRST}"}).status_code == 200
        key_file.write_text(SECOND + "\n")
        newer = {"Authorization": f"Bearer {SECOND}"}
        deadline = time.monotonic() + 30
        while client.get("/v1/models", headers=newer).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert client.get("/v1/models", headers={"Authorization": f"Bearer {FIRST}"}).status_code == 401
        key_file.write_text(f"{FIRST}\n")
        while client.get("/v1/models", headers={"Authorization": f"Bearer {FIRST}"}).status_code != 200:
            time.sleep(0.2)
    assert FIRST not in guarded.log
    assert SECOND not in guarded.log


def test_the_document_is_valid_and_describes_what_is_served(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    validate(document)
    assert {
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/tokenize",
        "/v1/models/{name}",
    } <= set(document["paths"])
    chat = document["components"]["schemas"]["ChatRequest"]["properties"]
    assert chat["temperature"]["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 2}
    for path, methods in document["paths"].items():
        if path.startswith(("/v1/models/", "/openapi")) or "get" not in methods:
            continue
        assert http.get(path).status_code == 200


def test_load_counts_requests_under_way(http: httpx.Client) -> None:
    assert http.get("/load").json() == {"server_load": 0}
