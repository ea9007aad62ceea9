"""Conversations as clients send them."""

from __future__ import annotations

import pytest
from llmservice_engine.codec import messages
from llmservice_engine.codec.codec import Codec
from llmservice_engine.codec.errors import PromptError


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize("role", ["user", "system"])
def test_text_parts_are_joined_with_a_newline_in_order(role: str, codec: Codec) -> None:
    """A1"""
    tail = [] if role == "user" else [{"role": "user", "content": "x"}]
    as_parts = codec.chat_tokens([{"role": role, "content": parts("AB", "CD")}, *tail])
    assert as_parts == codec.chat_tokens([{"role": role, "content": "AB\nCD"}, *tail])


@pytest.mark.parametrize("turn", [{"content": None}, {}, {"content": ""}])
def test_an_assistant_turn_that_called_a_tool_needs_no_content(turn: dict[str, object], codec: Codec) -> None:
    """A3"""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    conversation = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "tool_calls": [call], **turn},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    assert codec.chat_tokens(conversation)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [('{"a":1}', {"a": 1}), ("", {}), (None, {}), ('{"a":', '{"a":'), ({"a": 1}, {"a": 1})],
)
def test_past_tool_arguments_are_decoded_and_broken_ones_stay_text(given: object, wanted: object) -> None:
    """A5"""
    turn = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": given}}]}
    (known,) = messages.normalise([turn])
    assert known["tool_calls"][0]["function"]["arguments"] == wanted


def test_developer_reads_as_system() -> None:
    assert messages.normalise([{"role": "developer", "content": "x"}])[0]["role"] == "system"


@pytest.mark.parametrize(
    ("conversation", "param"),
    [
        ([], "messages"),
        (["hello"], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": ["user"], "content": "x"}], "messages[0].role"),
        ([{"role": "wizard", "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": "x"}, {"role": "user"}], "messages[1].content"),
        ([{"role": "user", "content": 7}], "messages[0].content"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            "messages[0].content[0].type",
        ),
        ([{"role": "user", "content": [{"type": ["text"], "text": "x"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "assistant", "tool_calls": [{"id": "c1"}]}], "messages[0].tool_calls[0]"),
    ],
)
def test_a_message_that_cannot_be_used_is_refused_by_its_field(
    conversation: list[object], param: str
) -> None:
    with pytest.raises(PromptError) as refusal:
        messages.normalise(conversation)
    assert refusal.value.param == param
