"""Requests that nobody would write: no 5xx, no hang, nothing kept, and a plain request is answered as before.

They go to a tiny random model, whose answers cost milliseconds. `make test` sends 500, `make test-full` 10,000.
"""

from __future__ import annotations

import itertools
import json
import re
import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.engine.api.server_process import Server, launched
from tests.engine.models import families

SIZES = [500, pytest.param(10_000, marks=[pytest.mark.full, pytest.mark.timeout(3600)])]
NAME = "tiny"
CONTEXT = 128
SPECIAL = ("<pad>", "<s>", "</s>", "<tool_call>", "</tool_call>", "<think>", "</think>")
TEMPLATE = (
    "<s>{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
    "{% for call in m.tool_calls or [] %}{{ call.function.arguments.items() | list }}{% endfor %}{% endfor %}"
)
PLAIN = {"model": NAME, "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, "logprobs": 0}
BATCH = 50  # requests, after which a plain one must be answered as before
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
LONGEST = 30.0  # s, of any request
GROWTH = 96 << 20  # bytes that the process may have more than after the warm-up: allocators keep some


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["Once upon a time there was a tool call"], trainer)
    shape = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": CONTEXT}
    made = families.write(families.Family("llama", shape), tmp_path_factory.mktemp("fuzz") / "model")
    tokenizer.save(str(made / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    (made / "tokenizer_config.json").write_text(json.dumps(settings))
    return made


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    arguments = [
        str(folder), "--served-model-name", NAME, "--dtype", "float32", "--enable-auto-tool-choice",
        "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", "--trust-request-chat-template",
        "--gpu-memory-utilization", "0.3", "--log-level", "warning",
    ]  # fmt: skip
    with launched(arguments, tmp_path_factory.mktemp("fuzzed")) as running:
        running.wait_until("/ready", 200)
        yield running


class Watched:
    """A server, what it was before the requests, and what it is after them."""

    def __init__(self, server: Server, http: httpx.Client) -> None:
        self.url = server.url
        self.http = http
        self._process = Path("/proc") / str(server.process.pid)
        self._answer = self._plain()
        for _ in range(20):  # what is made once is there now
            self._plain()
        self._files, self._memory = self._open_files(), self._resident()
        self._sent = 0

    def sent(self) -> None:
        self._sent += 1
        if self._sent % BATCH == 0:
            self.serves_as_before()

    def serves_as_before(self) -> None:
        assert self._plain() == self._answer

    def is_as_before(self) -> None:
        """Nothing runs on, and blocks, files and memory have come back."""
        self.serves_as_before()
        deadline = time.monotonic() + 10
        while (busy := self._busy()) != [0, 0, 0]:
            assert time.monotonic() < deadline, busy
            time.sleep(0.1)
        assert self._open_files() <= self._files + 4
        assert self._resident() <= self._memory + GROWTH

    def _plain(self) -> object:
        response = self.http.post("/v1/completions", json=PLAIN)
        assert response.status_code == 200, response.text
        return response.json()["choices"]

    def _busy(self) -> list[float]:
        text = self.http.get("/metrics").text
        names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
        return [float(re.findall(rf"^vllm:{name}\{{.*\}} (\S+)$", text, re.M)[0]) for name in names]

    def _open_files(self) -> int:
        return sum(1 for _ in (self._process / "fd").iterdir())

    def _resident(self) -> int:
        return int(re.findall(r"VmRSS:\s+(\d+) kB", (self._process / "status").read_text())[0]) << 10


@pytest.fixture
def watched(server: Server) -> Iterator[Watched]:
    with httpx.Client(base_url=server.url, timeout=LONGEST) as http:
        found = Watched(server, http)
        yield found
        found.is_as_before()


def fuzz(examples: int) -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=examples, deadline=None, database=None, derandomize=examples < 1000,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip


def check(response: httpx.Response) -> None:
    """Served, or refused in OpenAI's shape."""
    assert response.status_code < 500, response.text
    if response.status_code != 200:
        error = response.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["code"] is None or isinstance(error["code"], str)
    elif response.headers["content-type"].startswith("text/event-stream"):
        events = [event for event in response.text.split("\n\n") if event]
        assert events[-1] == "data: [DONE]" or '"type":"response.' in events[-1]
        assert '"type":"server_error"' not in response.text
    else:
        response.json()


@pytest.mark.parametrize("size", SIZES)
def test_what_the_document_allows_and_forbids_is_answered_as_it_says(watched: Watched, size: int) -> None:
    """Schemathesis on /openapi.json: half of the bodies are valid, half are not."""
    document = schemathesis.openapi.from_url(f"{watched.url}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    posts = [operation for operation in operations if operation.method == "post"]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    for operation, mode in itertools.product(posts, modes):

        @fuzz(size // 2 // (len(posts) * len(modes)))
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def send(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=CHECKS, timeout=LONGEST)
            watched.sent()

        send()


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
WORD = st.text(string.ascii_letters, min_size=1, max_size=5)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
IDS = st.lists(st.integers(0, 280), min_size=1, max_size=20)
SCHEMA = st.sampled_from([
    {}, {"type": "object"}, {"enum": ["a", 1]}, {"type": "array", "items": {"type": "integer"}, "minItems": 3},
    {"oneOf": [{"const": 1}, {"type": "string"}]}, {"type": "object", "properties": {"a": {"type": "boolean"}}},
])  # fmt: skip
NO_SCHEMA = st.sampled_from([{"type": "wolf"}, {"properties": {"foo": "bar"}}, {"$ref": "#"}, {"not": {}}, 7])
PART = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
CALL = st.fixed_dictionaries({
    "id": WORD, "type": st.just("function"), "function": st.fixed_dictionaries({"name": WORD, "arguments": TEXT}),
})  # fmt: skip
MESSAGE = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
                           "content": TEXT | st.lists(PART, max_size=2)}, optional={"name": WORD}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": st.none(), "tool_calls": st.lists(CALL)}),
)  # fmt: skip
TOOLS = st.lists(
    st.fixed_dictionaries({"type": st.just("function"), "function": st.fixed_dictionaries(
        {"name": WORD}, optional={"parameters": SCHEMA, "description": TEXT})}), min_size=1, max_size=2)  # fmt: skip
SMALL = st.floats(0, 1)
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "temperature": st.sampled_from([0, 1e-12, 0.3, 1, 2]), "top_p": SMALL, "min_p": SMALL,
    "top_k": st.integers(-1, 300), "seed": st.integers(-(2**63), 2**63 - 1), "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2), "repetition_penalty": st.floats(0.01, 100), "n": st.integers(1, 5),
    "logit_bias": st.dictionaries(st.integers(0, 280).map(str), st.floats(-100, 100), max_size=3),
    "stop": WORD | st.lists(WORD, max_size=4), "stop_token_ids": IDS, "bad_words": st.lists(WORD, max_size=3),
    "min_tokens": st.integers(0, 4), "ignore_eos": st.booleans(), "prompt_logprobs": st.integers(0, 20),
    "truncate_prompt_tokens": st.integers(1, 30) | st.just(-1), "priority": st.integers(-9, 9),
    "skip_special_tokens": st.booleans(), "include_stop_str_in_output": st.booleans(), "stream": st.booleans(),
    "max_tokens": st.integers(1, 40), "wolf": ANYTHING,
}  # fmt: skip
FORMS: dict[str, st.SearchStrategy[Any]] = {
    "guided_json": SCHEMA, "guided_regex": st.text(st.sampled_from("ab(|)*+?[]{}1,9.\\d^$"), max_size=12),
    "guided_choice": st.lists(WORD, min_size=1, max_size=3), "response_format": st.just({"type": "json_object"}),
    "guided_grammar": st.sampled_from(['start: "a"', "start: start", "root ::= [a-z]"]),
}  # fmt: skip
OF_COMPLETIONS = GOOD | {
    "best_of": st.integers(1, 6), "logprobs": st.integers(0, 20), "echo": st.booleans(),
}  # fmt: skip
OF_CHATS = GOOD | {
    "logprobs": st.booleans(), "top_logprobs": st.integers(0, 20), "max_completion_tokens": st.integers(1, 40),
    "tools": TOOLS, "tool_choice": st.sampled_from(["none", "auto", "required"]), "parallel_tool_calls": st.booleans(),
    "chat_template": st.sampled_from(["{{ messages }}", "{{ x.y.z }}", "{% for %}", "{{ raise_exception(0) }}", ""]),
    "chat_template_kwargs": st.fixed_dictionaries({"enable_thinking": ANYTHING}), "include_reasoning": st.booleans(),
    "continue_final_message": st.booleans(), "add_generation_prompt": st.booleans(),
    "add_special_tokens": st.booleans(), "documents": st.just([{"text": "x"}]),
}  # fmt: skip
OF_RESPONSES = {name: GOOD[name] for name in ("temperature", "top_p", "stream", "wolf")} | {
    "instructions": TEXT, "max_output_tokens": st.integers(1, 40),
    "text": SCHEMA.map(lambda schema: {"format": {"type": "json_schema", "schema": schema}}),
}  # fmt: skip
COUNT = st.sampled_from([-(2**70), -2, -1, 0, 1, 21, 127, 128, 129, 2**31, 2**63, 2**64, 1.5, 1e300])
WRONG = st.one_of(ANYTHING, COUNT, NO_SCHEMA, st.lists(COUNT, max_size=3))


def bodies(
    main: st.SearchStrategy[dict[str, Any]], fields: dict[str, st.SearchStrategy[Any]], forms: bool = False
) -> st.SearchStrategy[dict[str, Any]]:
    """``main``, some good wishes, at most one form; one time in four one value is whatever it is."""
    names = st.lists(st.sampled_from(sorted(fields)), max_size=5, unique=True)
    wishes = names.flatmap(lambda chosen: st.fixed_dictionaries({name: fields[name] for name in chosen}))
    form = st.one_of(
        st.just({}), *(st.fixed_dictionaries({name: one}) for name, one in FORMS.items() if forms)
    )
    wrong = st.dictionaries(
        st.sampled_from(sorted(fields | (FORMS if forms else {}))), WRONG, min_size=1, max_size=1
    )
    spoilt = st.integers(0, 3).flatmap(lambda dice: wrong if dice == 0 else st.just({}))
    return st.tuples(main, wishes, form, spoilt).map(lambda parts: parts[0] | parts[1] | parts[2] | parts[3])


PROMPTS = st.one_of(TEXT, IDS, st.lists(WORD, min_size=1, max_size=3), st.lists(IDS, min_size=1, max_size=3))
PROMPT = PROMPTS | st.lists(st.integers(-1, 400), max_size=20) | ANYTHING
ENDPOINTS = {
    "/v1/completions": bodies(st.fixed_dictionaries({"prompt": PROMPTS}), OF_COMPLETIONS, forms=True),
    "/v1/chat/completions": bodies(
        st.fixed_dictionaries({"messages": st.lists(MESSAGE, min_size=1, max_size=3)}), OF_CHATS, forms=True
    ),
    "/v1/responses": bodies(st.fixed_dictionaries({"input": TEXT}), OF_RESPONSES),
    "/v1/embeddings": st.fixed_dictionaries({"input": PROMPT}),
    "/tokenize": st.fixed_dictionaries({"prompt": TEXT})
    | st.fixed_dictionaries({"messages": st.lists(MESSAGE)}),
    "/detokenize": st.fixed_dictionaries({"tokens": st.lists(st.integers(-1, 400), max_size=20)}),
}
MUCH = ("/v1/completions", "/v1/chat/completions")
ASKED = st.sampled_from([*MUCH, *MUCH, *ENDPOINTS]).flatmap(
    lambda path: st.tuples(st.just(path), ENDPOINTS[path])
)


@pytest.mark.parametrize("size", SIZES)
def test_whatever_is_put_together_is_served_or_refused(watched: Watched, size: int) -> None:
    @fuzz(size // 2)
    @hypothesis.given(ASKED)
    def send(asked: tuple[str, dict[str, Any]]) -> None:
        path, body = asked
        check(watched.http.post(path, json={"model": NAME} | body))
        watched.sent()

    send()


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize"])
def test_whatever_bytes_come_are_refused(watched: Watched, path: str) -> None:
    @fuzz(50)
    @hypothesis.given(st.binary(max_size=40) | st.text(string.printable, max_size=40).map(str.encode))
    def send(body: bytes) -> None:
        response = watched.http.post(path, content=body)
        check(response)
        assert response.status_code == 400
        watched.sent()

    send()
