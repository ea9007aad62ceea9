"""``llmservice plan`` as people run it: a process of its own, its output, its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from llmservice_planner import fit, known
from llmservice_planner.fit import Device
from llmservice_planner.settings import EngineSettings


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llmservice_operator.cli.people", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(known.MODELS["SmolLM2-135M"]))
    return tmp_path


def test_a_model_that_fits_is_said_to_in_figures() -> None:
    done = run("plan", "llama-3.1-8b", "--device-memory", "24Gi", "--", "--max-model-len", "4096")
    assert (done.returncode, done.stderr) == (0, "")
    settings = EngineSettings(model="llama-3.1-8b", max_model_len=4096)
    judged = fit.judge(known.MODELS["Llama-3.1-8B"], settings, Device(24 * 2**30, 1, "gpu"))
    *figures, sentence = done.stdout.splitlines()
    assert sentence == f"Fits: {judged.message}"
    assert ["weights", "15,317", "MiB"] in [line.split() for line in figures]


def test_one_that_does_not_fit_names_the_next_move_and_ends_with_1() -> None:
    done = run("plan", "Llama-3.1-8B", "--device-memory", "L4")
    assert done.returncode == 1
    judged = fit.judge(
        known.MODELS["Llama-3.1-8B"],
        EngineSettings(model="m"),
        Device(known.ACCELERATORS["L4"] * 2**20, 1, "gpu"),
    )
    assert done.stdout.splitlines()[-1] == f"DoesNotFit: {judged.message}"
    assert "try --max-model-len" in judged.message


def test_the_files_of_a_folder_correct_the_weights(folder: Path) -> None:
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(400 * 2**20)
    with (folder / "consolidated.safetensors").open("wb") as file:
        file.truncate(400 * 2**20)
    assert ["weights", "400", "MiB"] in [
        line.split() for line in run("plan", str(folder), "--device-memory", "L4").stdout.splitlines()
    ]


def test_a_config_on_its_own_will_do_for_a_cpu(folder: Path) -> None:
    done = run("plan", str(folder / "config.json"), "--device-memory", "2Gi", "--cpu")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("Fits: weights 311 MiB")


def test_an_architecture_that_cannot_be_sized_is_said_to_be_unknown(folder: Path) -> None:
    (folder / "config.json").write_text('{"architectures": ["MambaForCausalLM"]}')
    done = run("plan", str(folder), "--device-memory", "80Gi")
    assert done.returncode == 1
    assert done.stdout.startswith("Unknown: architecture MambaForCausalLM cannot be sized")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope", "--device-memory", "1Gi"], "nope is neither a file nor a known model"),
        (["qwen3-8b", "--device-memory", "24GB"], "'24GB' is not a quantity"),
        (["qwen3-8b", "--device-memory", "0"], "more than 0"),
        (["qwen3-8b"], "device"),
        (["qwen3-8b", "--device-memory", "L4", "--count", "0"], "count"),
        (["qwen3-8b", "--device-memory", "1Gi", "--cpu", "--count", "2"], "a CPU is one device"),
        (
            ["qwen3-8b", "--device-memory", "L4", "--", "--max-model-length", "3"],
            "did you mean --max-model-len?",
        ),
        (["qwen3-8b", "--device-memory", "L4", "--max-model-len", "3"], "--max-model-len"),
        (["FOLDER/broken.json", "--device-memory", "L4"], "broken.json cannot be read"),
        (["FOLDER/list.json", "--device-memory", "L4"], "holds no JSON object"),
        (["FOLDER/empty", "--device-memory", "L4"], "config.json cannot be read"),
    ],
)
def test_bad_input_is_refused_in_one_line(folder: Path, arguments: list[str], said: str) -> None:
    (folder / "broken.json").write_text("{")
    (folder / "list.json").write_text("[]")
    (folder / "empty").mkdir()
    done = run("plan", *(argument.replace("FOLDER", str(folder)) for argument in arguments))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


def test_the_command_never_imports_torch() -> None:
    code = "import sys, llmservice_operator.cli.people as p; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
