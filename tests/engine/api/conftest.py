"""One real server with the real model for the whole session, and clients for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from e2e import model
from tests.engine.api.server_process import NAMES, Server, launched


@pytest.fixture(scope="session")
def model_folder() -> Path:
    return model.ensure()


@pytest.fixture(scope="session")
def server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # A Service called "port" would inject such a variable (C1): it must mean nothing to the engine.
    environment = {"PORT": "tcp://10.0.0.1:8000", "LLMSERVICE_PORT": "tcp://10.0.0.1:8000"}
    arguments = [str(model_folder), "--served-model-name", *NAMES]
    with launched(arguments, tmp_path_factory.mktemp("server"), environment=environment) as running:
        running.wait_until("/ready", 200)
        yield running


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


@pytest.fixture
def sdk(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key="not-needed", max_retries=0)


@pytest.fixture
def still_serves(http: httpx.Client) -> Iterator[None]:
    """After the test, whatever it sent, a plain request succeeds."""
    yield
    body = {"model": NAMES[0], "prompt": "One, two, three,", "max_tokens": 1, "temperature": 0}
    assert http.post("/v1/completions", json=body).json()["choices"][0]["text"] == " four"
