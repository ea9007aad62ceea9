"""Tool calls and reasoning in the answers of models: what is read must not depend on how the text arrives."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import partial
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmservice_engine.codec.reading import (
    CallArguments,
    CallStart,
    Chain,
    Content,
    MachineReader,
    OneCall,
    Reader,
    Reasoning,
)
from llmservice_engine.codec.reasoning import think
from llmservice_engine.codec.tools import forced
from llmservice_engine.codec.tools.registry import FORMATS
from llmservice_planner import settings

NAMES = frozenset({"weather", "time"})
CALL = '{"name": "weather", "arguments": {"city": "Brno, \\"}{\\"", "days": [1, {}]}}'
ARGUMENTS = '{"city": "Brno, \\"}{\\"", "days": [1, {}]}'


def calls_reader(name: str) -> Reader:
    machine = FORMATS[name].machine
    return MachineReader(lambda text: machine(text, NAMES))


def read(reader: Reader, pieces: list[str]) -> tuple[str, str, list[list[str]]]:
    """Content, reasoning, and calls as [name, arguments]."""
    content, reasoning = "", ""
    calls: list[list[str]] = []
    for delta in [*(d for piece in pieces for d in reader.push(piece)), *reader.finish()]:
        match delta:
            case Content(text=text):
                content += text
            case Reasoning(text=text):
                reasoning += text
            case CallStart(index=index, name=name):
                assert index == len(calls)
                calls.append([name, ""])
            case CallArguments(index=index, text=text):
                assert index == len(calls) - 1
                calls[index][1] += text
    return content, reasoning, calls


def test_each_value_of_the_flag_has_its_format() -> None:
    assert set(FORMATS) == set(get_args(settings.ToolCallParser))


@pytest.mark.parametrize(
    ("name", "text", "content", "calls"),
    [
        ("hermes", f"Let me.\n\n<tool_call>\n{CALL}\n</tool_call>", "Let me.", [["weather", ARGUMENTS]]),
        (
            "hermes",
            f'<tool_call>{CALL}</tool_call>\n<tool_call>{{"arguments":{{}},"name":"time"}}</tool_call>\n',
            "",
            [["weather", ARGUMENTS], ["time", "{}"]],
        ),
        (
            "hermes",
            '<tool_call>{"name": "weather", "arguments": {"city": "Br',
            "",
            [["weather", '{"city": "Br']],
        ),
        (
            "llama3_json",
            ' {"name": "weather", "parameters": {"a": 1}}; {"name":"time","parameters":{}}',
            "",
            [["weather", '{"a": 1}'], ["time", "{}"]],
        ),
        (
            "llama3_json",
            '<|python_tag|>{"name": "time", "parameters": "{\\"a\\": 1}"}',
            "",
            [["time", '{"a": 1}']],
        ),
        ("mistral", f"[TOOL_CALLS][{CALL}]", "", [["weather", ARGUMENTS]]),
        (
            "mistral",
            'hm[TOOL_CALLS]weather[ARGS]{"a": 1}[TOOL_CALLS]time{"b":2}[TOOL_CALLS]time[CALL_ID]x1[ARGS]{}',
            "hm",
            [["weather", '{"a": 1}'], ["time", '{"b":2}'], ["time", "{}"]],
        ),
        (
            "pythonic",
            '[weather(city="a)", days=[1, {"k": None}]), time()]',
            "",
            [["weather", '{"city": "a)", "days": [1, {"k": null}]}'], ["time", "{}"]],
        ),
        ("pythonic", "<|python_start|>[time(a=-1)]<|python_end|>", "", [["time", '{"a": -1}']]),
    ],
)
def test_calls_are_read_as_the_model_wrote_them(
    name: str, text: str, content: str, calls: list[list[str]]
) -> None:
    assert read(calls_reader(name), [text]) == (content, "", calls)
    assert read(calls_reader(name), list(text)) == (content, "", calls)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", "a <tool_call>hello</tool_call> b <tool"),
        ("hermes", 'x\n <tool_call>{"name": "weather"}</tool_call> y'),
        ("hermes", '<tool_call>{"name": 7, "arguments": {}}</tool_call>'),
        ("llama3_json", '{"answer": 42} is it\n'),
        ("llama3_json", ' {"name": "Bob", "parameters": {"a": 1}}'),
        ("llama3_json", '{"name": "time", "parameters": 3}'),
        ("mistral", "[TOOL_CALLS]no call [TOOL"),
        ("mistral", "[TOOL_CALLS][1, 2]"),
        ("pythonic", "[1, 2, 3] is a list"),
        ("pythonic", "[time(1)] [weather(**x)]"),
        ("pythonic", '[Bob(a=1)] and "['),
    ],
)
def test_what_looks_like_a_call_and_is_none_comes_out_whole(name: str, text: str) -> None:
    assert read(calls_reader(name), [text]) == (text, "", [])


PARTS = (
    "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", "<|python_start|>",
    "<|python_end|>", "<think>", "</think>", CALL, ARGUMENTS, "{", "}", "[", "]", "weather", "time(", "a=1", ")", ",",
    ";", '"', "\\", '"name": ', '"parameters": ', ": ", " ", "\n", "<", "text", "é",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=14).map("".join)
READERS: dict[str, Callable[[], Reader]] = {
    **{name: partial(calls_reader, name) for name in FORMATS},
    "forced": lambda: MachineReader(forced.machine),
    "named": lambda: forced.Named("time"),
    "think": lambda: MachineReader(partial(think.machine, opened=False)),
    "opened": lambda: MachineReader(partial(think.machine, opened=True)),
    "both": lambda: Chain(
        MachineReader(partial(think.machine, opened=True)), OneCall(calls_reader("hermes"))
    ),
}


@pytest.mark.parametrize("name", READERS)
@given(text=TEXTS, cuts=st.lists(st.integers(0, 200), max_size=12))
def test_the_cut_of_a_text_changes_nothing(name: str, text: str, cuts: list[int]) -> None:
    ends = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(ends)]
    assert read(READERS[name](), pieces) == read(READERS[name](), [text])


@pytest.mark.parametrize("name", FORMATS)
@given(text=TEXTS)
def test_a_text_without_a_call_is_passed_on_unchanged(name: str, text: str) -> None:
    content, _, calls = read(calls_reader(name), [text])
    if not calls and name != "pythonic":  # which takes its markers away
        assert content == text


@given(arguments=st.dictionaries(st.text(), st.recursive(st.integers() | st.text(), st.lists)))
def test_streamed_arguments_are_the_json_that_was_written(arguments: dict[str, object]) -> None:
    written = json.dumps(arguments)
    text = f'<tool_call>\n{{"name": "time", "arguments": {written}}}\n</tool_call>'
    assert read(calls_reader("hermes"), list(text)) == ("", "", [["time", written]])


@pytest.mark.parametrize(
    ("opened", "text", "reasoning", "content"),
    [
        (True, "\nI think\n so\n</think>\n\nAnswer\n", "I think\n so", "Answer\n"),
        (True, "<think>\nhm</think> yes", "hm", "yes"),
        (True, " <b>x", "<b>x", ""),
        (True, "cut </thi", "cut </thi", ""),
        (False, "<think>\nhm</think> yes", "hm", "yes"),
        (False, " no tags </think>", "", " no tags </think>"),
        (False, "<thin", "", "<thin"),
    ],
)
def test_reasoning_is_parted_from_the_answer(opened: bool, text: str, reasoning: str, content: str) -> None:
    reader = MachineReader(partial(think.machine, opened=opened))
    assert read(reader, list(text)) == (content, reasoning, [])


@pytest.mark.parametrize(
    ("parser", "prompt", "opened"),
    [
        ("qwen3", "…assistant\n<think>\n", True),
        ("qwen3", "…assistant\n", False),
        ("qwen3", "…<think>\n\n</think>\n\n", False),
        ("deepseek_r1", "…assistant\n", True),
        ("deepseek_r1", "…<think>\n\n</think>\n\n", False),
    ],
)
def test_the_prompts_end_tells_whether_reasoning_is_open(parser: str, prompt: str, opened: bool) -> None:
    assert think.begins_open(parser, prompt) is opened
