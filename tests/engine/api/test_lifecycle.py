"""From the first second to the last: loading, draining, failing."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.engine.api.server_process import Server, launched

NAME = "m"
FAILING = (sys.executable, str(Path(__file__).with_name("failing_engine.py")))
STREAM = {"model": NAME, "prompt": "Once", "stream": True, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def odd_model(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real model without its chat template, with ' Paris' (7042) as one more end token, greedy by default."""
    folder = tmp_path_factory.mktemp("models") / "odd"
    folder.mkdir()
    for file in model_folder.iterdir():
        if file.name not in ("chat_template.jinja", "generation_config.json"):
            (folder / file.name).symlink_to(file)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7042], "temperature": 0}))
    return folder


class Reader(threading.Thread):
    """Reads one streamed completion to its end."""

    def __init__(self, server: Server, tokens: int) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._tokens = tokens
        self.events: list[str] = []
        self.started = threading.Event()
        self.start()

    def run(self) -> None:
        body = STREAM | {"max_tokens": self._tokens}
        url = self._server.url + "/v1/completions"
        with (
            suppress(httpx.RemoteProtocolError),  # cut: the test looks at what has arrived
            httpx.stream("POST", url, json=body, timeout=60) as response,
        ):
            for line in response.iter_lines():
                if line:
                    self.events.append(line.removeprefix("data: "))
                    self.started.set()


def report(server: Server) -> dict[str, Any]:
    """The failure report, checked for its form."""
    raw = server.termination_log
    assert len(raw.encode()) <= 4000
    found: dict[str, Any] = json.loads(raw)
    assert list(found)[-2:] == ["message", "hint"]
    assert found["code"] in server.log
    assert "Traceback" not in raw
    return found


def test_a_model_without_chat_template_and_with_two_ends_serves_and_drains(
    odd_model: Path, tmp_path: Path
) -> None:
    """A17, A19, A51, and SIGTERM: what runs is finished, nothing new is admitted, the exit code is 0."""
    with launched(
        [str(odd_model), "--served-model-name", NAME, "--max-model-len", "512"], tmp_path
    ) as server:
        loading = server.wait_until("/health", 503, 10)
        assert "loading" in loading.json()["error"]["message"]
        assert httpx.get(server.url + "/metrics").text.count("vllm:num_requests_waiting{") == 1
        early = httpx.post(server.url + "/v1/completions", json=STREAM)
        assert (early.status_code, "retry-after" in early.headers) == (503, True)
        assert httpx.get(server.url + "/v1/models").status_code == 503

        server.wait_until("/ready", 200)
        chat = {"model": NAME, "messages": [{"role": "user", "content": "hi"}]}
        refused = httpx.post(server.url + "/v1/chat/completions", json=chat)
        assert refused.status_code == 400
        assert "--chat-template" in refused.json()["error"]["message"]
        body = {"model": NAME, "prompt": "The capital of France is", "temperature": 0}
        (choice,) = httpx.post(server.url + "/v1/completions", json=body, timeout=30).json()["choices"]
        assert (choice["text"], choice["finish_reason"]) == ("", "stop")

        body = {"model": NAME, "prompt": "Once upon a time", "max_tokens": 8}
        texts = [
            httpx.post(server.url + "/v1/completions", json=body | more, timeout=30).json()["choices"][0][
                "text"
            ]
            for more in ({}, {"temperature": 0}, {"temperature": 1.5})
        ]
        assert texts[0] == texts[1] != texts[2]

        running = Reader(server, 40)
        assert running.started.wait(30)
        server.terminate()
        draining = server.wait_until("/ready", 503, 5)
        assert draining.headers["connection"] == "close"
        assert httpx.get(server.url + "/health").status_code == 200
        assert httpx.get(server.url + "/v1/models").status_code == 200
        late = httpx.post(server.url + "/v1/completions", json=STREAM)
        assert (late.status_code, late.headers["connection"], "retry-after" in late.headers) == (
            503,
            "close",
            True,
        )
        assert server.exit_code() == 0
        running.join(5)
        assert running.events[-1] == "[DONE]"
        assert json.loads(running.events[-2])["choices"][0]["finish_reason"] == "length"
        assert server.termination_log == ""


def test_a_drain_that_takes_too_long_ends_streams_with_one_error_event(
    model_folder: Path, tmp_path: Path
) -> None:
    """A38, A18, and a template from the command line."""
    template = "{{ raise_exception('Conversation roles must alternate') }}"
    arguments = [
        str(model_folder),
        "--served-model-name",
        NAME,
        "--drain-timeout",
        "0.3",
        "--chat-template",
        template,
    ]
    with launched(arguments, tmp_path) as server:
        server.wait_until("/ready", 200)
        chat = {
            "model": NAME,
            "messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": "hi"}],
        }
        refused = httpx.post(server.url + "/v1/chat/completions", json=chat)
        assert refused.status_code == 400
        assert "Conversation roles must alternate" in refused.json()["error"]["message"]

        running = Reader(server, 5000)
        sdk = openai.OpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0)
        with_sdk = iter(
            sdk.completions.create(
                model=NAME, prompt="Once", stream=True, max_tokens=5000, extra_body={"ignore_eos": True}
            )
        )
        next(with_sdk)
        assert running.started.wait(30)
        server.terminate()
        with pytest.raises(openai.APIError, match="shutting down"):
            list(with_sdk)
        running.join(5)
        *_, error, last = running.events
        assert json.loads(error)["error"]["code"] == "shutting_down"
        assert last == "[DONE]"
        assert server.exit_code() == 0


def test_sigterm_while_loading_ends_the_process_at_once_with_0(model_folder: Path, tmp_path: Path) -> None:
    with launched([str(model_folder)], tmp_path) as server:
        server.wait_until("/health", 503, 10)
        begun = time.monotonic()
        server.terminate()
        assert server.exit_code() == 0
        assert time.monotonic() - begun < 3
        assert server.termination_log == ""


@pytest.fixture
def failing(model_folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    arguments = [request.param, str(model_folder), "--served-model-name", NAME, "--stall-timeout", "0.5"]
    with launched(arguments, tmp_path, command=FAILING) as server:
        server.wait_until("/ready", 200)
        yield server


@pytest.mark.parametrize("failing", ["die"], indirect=True)
def test_a_dead_engine_ends_its_streams_with_an_error_and_the_process_with_1(failing: Server) -> None:
    """A38, B21: the pod restarts, and the report says why."""
    stream = Reader(failing, 50)
    assert failing.exit_code(10) == 1
    stream.join(5)
    *_, error, last = stream.events
    assert "the device is lost" in json.loads(error)["error"]["message"]
    assert last == "[DONE]"
    assert report(failing)["code"] == "InternalError"


@pytest.mark.parametrize("failing", ["stall"], indirect=True)
def test_a_stalled_engine_turns_health_red(failing: Server) -> None:
    assert Reader(failing, 50).started.wait(5)
    assert httpx.get(failing.url + "/health").status_code == 200
    stalled = failing.wait_until("/health", 503, 5)
    assert "stalled" in stalled.json()["error"]["message"]
    assert failing.wait_until("/ready", 503, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "words", "exit_code"),
    [
        (["/no/such/folder"], "ModelNotFound", "/no/such/folder", 1),
        (["MODEL", "--max-model-length", "9"], "InvalidSettings", "--max-model-len", 2),
        (["MODEL", "--gpu-memory-utilization", "1.5"], "InvalidSettings", "--gpu-memory-utilization", 2),
        (["MODEL", "--chat-template", "/no/file"], "InvalidSettings", "/no/file", 2),
        (["MODEL", "--host", "256.1.1.1"], "InvalidSettings", "256.1.1.1", 2),
        ([], "InvalidSettings", "no model given", 2),
    ],
)
def test_a_start_that_fails_says_why(
    arguments: list[str], code: str, words: str, exit_code: int, model_folder: Path, tmp_path: Path
) -> None:
    known = [str(model_folder) if argument == "MODEL" else argument for argument in arguments]
    with launched(known, tmp_path) as server:
        assert server.exit_code() == exit_code
        assert report(server)["code"] == code
        assert words in report(server)["message"] + report(server)["hint"]


def test_a_context_longer_than_the_model_s_is_refused_with_the_figure(
    model_folder: Path, tmp_path: Path
) -> None:
    with launched([str(model_folder), "--max-model-len", "99999"], tmp_path) as server:
        assert server.exit_code(60) == 2
        assert report(server)["code"] == "InvalidSettings"
        assert "8192" in server.termination_log


def test_a_busy_port_is_named(model_folder: Path, tmp_path: Path, server: Server) -> None:
    busy = int(server.url.rpartition(":")[2])
    with launched([str(model_folder)], tmp_path, port=busy) as second:
        assert second.exit_code() == 2
        assert f"port {busy}" in report(second)["message"]
        assert "--port" in report(second)["hint"]
