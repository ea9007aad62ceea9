"""The command line, the benchmark and the example, as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from llmservice_engine.bench.client import Outcome
from llmservice_engine.bench.run import summarise
from llmservice_engine.bench.scenarios import SCENARIOS, Scenario

from tests.engine.api.server_process import Server, free_port

ROOT = Path(__file__).parents[3]
ENGINE = [sys.executable, "-m", "llmservice_engine.cli"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_line_is_quick_because_it_imports_no_torch() -> None:
    code = "import sys, llmservice_engine.cli; print({'torch', 'transformers'} & set(sys.modules))"
    assert run(sys.executable, "-c", code).stdout == "set()\n"


def test_help_lists_commands_and_flags() -> None:
    assert "bench" in run(*ENGINE, "--help").stdout
    flags = run(*ENGINE, "serve", "--help").stdout
    assert "--max-model-len" in flags
    assert "llmservice-engine serve MODEL" in flags
    assert "--scenario" in run(*ENGINE, "bench", "--help").stdout


def test_an_unknown_command_is_an_error() -> None:
    assert run(*ENGINE, "sreve").returncode == 2
    assert run(*ENGINE).returncode == 2


def test_the_example_streams_an_answer_and_prints_its_figures(server: Server) -> None:
    question = "What is the capital of France?"
    done = run(sys.executable, str(ROOT / "examples/chat.py"), "--base-url", server.url, question)
    assert done.returncode == 0, done.stderr
    answer, *_, figures = done.stdout.strip().splitlines()
    assert answer == "The capital of France is Paris."
    assert "time to first token" in figures
    assert "tokens/s" in figures


def test_the_example_says_what_is_wrong(server: Server) -> None:
    chat = (sys.executable, str(ROOT / "examples/chat.py"))
    unreachable = run(*chat, "--base-url", f"http://127.0.0.1:{free_port()}", "hi")
    assert unreachable.returncode == 1
    assert "cannot reach" in unreachable.stderr
    unknown = run(*chat, "--base-url", server.url, "--model", "nope", "hi")
    assert unknown.returncode == 1
    assert "model_not_found" in unknown.stderr


@pytest.mark.parametrize(
    ("name", "in_flight", "requests", "prompt", "output"),
    [
        ("single", 1, 4, (128, 128), (128, 128)),
        ("c16", 16, 32, (64, 256), (32, 128)),
        ("c64", 64, 128, (64, 256), (32, 128)),
        ("prefix", 32, 32, (544, 544), (32, 32)),
    ],
)
def test_the_loads_are_what_they_say(
    name: str, in_flight: int, requests: int, prompt: tuple[int, int], output: tuple[int, int]
) -> None:
    import random

    load = SCENARIOS[name](random.Random(1))
    assert (load.in_flight, len(load.asks)) == (in_flight, requests)
    assert all(prompt[0] <= len(ask.prompt) <= prompt[1] for ask in load.asks)
    assert all(output[0] <= ask.output_tokens <= output[1] for ask in load.asks)
    shared = {ask.prompt[:512] for ask in load.asks} if name == "prefix" else {0}
    assert len(shared) == 1


def test_figures_are_of_what_succeeded() -> None:
    good = Outcome(0.0, 1.0, (0.1, 0.2, 0.4), 5)
    bad = Outcome(0.0, 9.0, (8.0,), 1, error="HTTP 500")
    found = summarise(Scenario("x", "y", 1, ()), [good, bad], seconds=2.0)
    assert (found.requests, found.errors, found.first_error) == (2, 1, "HTTP 500")
    assert (found.output_tokens, found.output_tokens_per_s) == (5, 2.5)
    assert (found.ttft_p50_ms, found.itl_p50_ms, found.itl_p99_ms) == (100.0, 100.0, 200.0)
    assert found.decode_tokens_per_s == pytest.approx(4 / 0.3, abs=0.1)


def test_bench_prints_a_table_and_writes_json(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = run(*ENGINE, "bench", "--base-url", server.url, "--scenario", "prefix", "--json", str(file))
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("prefix", "TTFT", "p99 ms", "tok/s"))
    (figures,) = json.loads(file.read_text())
    assert (figures["requests"], figures["errors"], figures["output_tokens"]) == (32, 0, 1024)
    assert figures["ttft_p99_ms"] >= figures["ttft_p50_ms"] > 0


def test_bench_says_that_nobody_answers() -> None:
    done = run(*ENGINE, "bench", "--base-url", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "cannot reach" in done.stderr
