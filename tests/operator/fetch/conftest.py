"""A hub with one model, and a way to run the command in this process or as one of its own."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from llmservice_operator.fetch import command

from tests.operator.fetch.hub_server import Hub, Repo

NAME = "org/tiny"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "vocab_size": 32,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
    "_name_or_path": "somewhere",
}
BIG = "model-00001-of-00002.safetensors"
SMALL = "model-00002-of-00002.safetensors"


@functools.cache
def safetensors(values: int, seed: int = 0) -> bytes:
    """A whole file of one BF16 tensor."""
    header = json.dumps({"w": {"dtype": "BF16", "shape": [values], "data_offsets": [0, 2 * values]}}).encode()
    return len(header).to_bytes(8, "little") + header + random.Random(seed).randbytes(2 * values)


def model(big: int = 1_000_000) -> dict[str, bytes]:
    weights = {"a": BIG, "b": SMALL}
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors.index.json": json.dumps({"weight_map": weights}).encode(),
        "tokenizer.json": b'{"version": "1.0"}',
        BIG: safetensors(big, 1),
        SMALL: safetensors(1000, 2),
        "README.md": b"# a model",
        "pytorch_model.bin": b"the same again",
        "original/consolidated.00.pth": b"and again",
    }


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    server.repos[NAME] = Repo(
        model(),
        lfs={BIG, SMALL},
        safetensors={"parameters": {"BF16": 1_001_000}, "total": 1_001_000},
    )
    yield server
    server.close()


# The command without the command line's imports, which take longer than most tests.
PROCESS = """
import json, logging, pathlib, sys
from llmservice_operator.fetch import command
logging.basicConfig(level="INFO")
given = json.loads(sys.argv[1])
paths = {key: pathlib.Path(given.pop(key)) for key in ("folder", "report", "token_folder", "credentials_folder")}
command.main(command.Options(**given, **paths))
"""


@dataclass
class Ran:
    code: int
    report: dict[str, Any]
    output: str


@dataclass
class Runner:
    """``run`` in this process, ``start`` as the command that the job runs."""

    folder: Path
    report: Path
    secrets: Path
    caplog: pytest.LogCaptureFixture

    def options(self, action: str, source: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return {
            "action": action,
            "source": json.dumps(source),
            "folder": self.folder,
            "report": self.report,
            "token_folder": self.secrets,
            "credentials_folder": self.secrets,
            "progress_port": 0,
            "attempts": 3,
            "retry_delay": 0.01,
            **more,
        }

    def run(self, action: str, source: Mapping[str, Any], **more: Any) -> Ran:
        self.report.write_text("")
        self.caplog.clear()
        code = command.run(command.Options(**self.options(action, source, **more)))
        return self.ran(code, self.caplog.text)

    def ran(self, code: int, output: str) -> Ran:
        text = self.report.read_text() if self.report.exists() else ""
        assert text, output
        assert len(text.encode()) <= 4000
        return Ran(code, json.loads(text), output)

    def start(
        self, action: str, source: Mapping[str, Any], *, env: Mapping[str, str] | None = None, **more: Any
    ) -> subprocess.Popen[str]:
        confined = more.pop("confined", False)
        given = self.options(action, source, **more)
        argv = [sys.executable, "-c", PROCESS, json.dumps(given, default=str)]
        if (
            confined and os.geteuid() == 0
        ):  # root may do all that the mode forbids, unless this is taken from it
            argv = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *argv]
        return self.process(argv, env)

    def command_line(self, action: str, source: Mapping[str, Any], **more: Any) -> subprocess.Popen[str]:
        given = self.options(action, source, **more)
        argv = [sys.executable, "-m", "llmservice_operator", "fetch", given.pop("action")]
        for name, value in given.items():
            argv += [f"--{name.replace('_', '-')}", str(value)]
        return self.process(argv)

    def process(self, argv: list[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            argv,
            env=os.environ | {"HOME": str(self.folder.parent)} | dict(env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], timeout: float = 30) -> Ran:
        output, _ = process.communicate(timeout=timeout)
        return self.ran(process.returncode, output)


@pytest.fixture
def fetch(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Runner:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    caplog.set_level("INFO")
    (tmp_path / "volume").mkdir()
    (tmp_path / "secrets").mkdir()
    return Runner(tmp_path / "volume", tmp_path / "report", tmp_path / "secrets", caplog)


@pytest.fixture
def source(hub: Hub) -> Callable[..., dict[str, Any]]:
    def of(repo: str = NAME, **more: Any) -> dict[str, Any]:
        return {"hf": {"repo": repo, "revision": "main", "files": [], "endpoint": hub.url, **more}}

    return of
