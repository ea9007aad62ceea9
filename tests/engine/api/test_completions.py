"""Raw completions, stop strings, end tokens, text in other scripts."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests.engine.api import sse
from tests.engine.api.server_process import NAMES

PATH = "/v1/completions"
ALPHABET = "ABCDEFGHIJKLMNOP\n" * 3 + "ABC"  # goes on with DEF, GH, I, J, K, LM, N, OP
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def completion(prompt: object, **fields: Any) -> dict[str, Any]:
    return {"model": NAMES[0], "prompt": prompt, "temperature": 0} | fields


def test_openai_s_client_completes_and_streams_the_same(sdk: openai.OpenAI) -> None:
    body = completion("The capital of France is", max_tokens=8)
    whole = sdk.completions.create(**body)
    assert whole.choices[0].text.startswith(" Paris")
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (5, 8)
    chunks = list(sdk.completions.create(**body, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == "length"


def test_sixteen_tokens_are_the_default(http: httpx.Client) -> None:
    """A31"""
    answer = http.post(PATH, json=completion(ALPHABET)).json()
    assert answer["usage"]["completion_tokens"] == 16
    assert answer["choices"][0]["finish_reason"] == "length"


def test_token_ids_are_a_prompt(http: httpx.Client) -> None:
    """A27"""
    as_text = http.post(PATH, json=completion("The capital of France is")).json()
    as_ids = http.post(PATH, json=completion([504, 3575, 282, 4649, 314])).json()
    assert as_ids["usage"] == as_text["usage"]
    assert as_ids["choices"] == as_text["choices"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_list_of_prompts_gives_a_choice_each_in_order(http: httpx.Client, stream: bool) -> None:
    prompts = ["The capital of France is", "One, two, three,"]
    body = completion(prompts, max_tokens=4)
    alone = [http.post(PATH, json=completion(p, max_tokens=4)).json()["choices"][0]["text"] for p in prompts]
    if stream:
        choices = [choice for chunk in sse.events(http, PATH, body) for choice in chunk["choices"]]
        texts = ["".join(c["text"] for c in choices if c["index"] == index) for index in (0, 1)]
    else:
        answer = http.post(PATH, json=body).json()
        texts = [choice["text"] for choice in answer["choices"]]
        assert answer["usage"]["completion_tokens"] == 8
    assert texts == alone


def test_no_part_of_a_stop_string_is_sent_and_the_stream_equals_the_whole(http: httpx.Client) -> None:
    """A11"""
    body = completion(ALPHABET, stop="GHIJKLM", max_tokens=20)
    whole = http.post(PATH, json=body).json()
    assert whole["choices"][0]["finish_reason"] == "stop"
    assert whole["choices"][0]["text"] == "DEF"
    chunks = sse.events(http, PATH, body)
    assert sse.completion_text(chunks) == "DEF"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ("HI", "DEFG"),
        (["HI"], "DEFG"),
        (["nothing", "ZZ", "HIJ", "I"], "DEFGH"),
        (None, "DEFGHIJK"),
        ([], "DEFGHIJK"),
        (["nothing"], "DEFGHIJK"),
    ],
)
def test_every_shape_of_stop(http: httpx.Client, stop: object, text: str) -> None:
    """A13"""
    answer = http.post(PATH, json=completion(ALPHABET, stop=stop, max_tokens=5)).json()
    assert answer["choices"][0]["text"] == text


def test_stop_token_ids_end_the_text(http: httpx.Client) -> None:
    """vLLM's extension; 7042 is ' Paris'."""
    body = completion("The capital of France is", max_tokens=4)
    stopped = http.post(PATH, json=body | {"stop_token_ids": [7042]}).json()
    assert (stopped["choices"][0]["text"], stopped["choices"][0]["finish_reason"]) == ("", "stop")
    assert http.post(PATH, json=body).json()["choices"][0]["text"].startswith(" Paris")


@pytest.mark.parametrize(("line", "tokens"), [("kůň žluťoučký\n", 24), ("😀🚀", 20)])
def test_a_character_is_never_sent_in_parts(http: httpx.Client, line: str, tokens: int) -> None:
    """A14: the model goes on with what it has seen many times; only the cut at the end may split a character."""
    body = completion(line * 12, max_tokens=tokens)
    whole = http.post(PATH, json=body).json()["choices"][0]["text"]
    chunks = sse.events(http, PATH, body)
    assert sse.completion_text(chunks) == whole
    assert whole.startswith(line)
    assert REPLACEMENT not in whole[:-1]
    *pieces, _ = (chunk["choices"][0]["text"] for chunk in chunks)
    assert len(pieces) > 3
    assert not any(REPLACEMENT in piece for piece in pieces)
