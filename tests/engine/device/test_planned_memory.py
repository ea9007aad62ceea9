"""The planner's figures against what the engine really takes, measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llmservice_engine.core.errors import InsufficientMemory
from llmservice_engine.device import load, memory
from llmservice_engine.ops import linear
from llmservice_planner import fit
from llmservice_planner.fit import Device
from llmservice_planner.settings import EngineSettings

from e2e import model

ROOT = Path(__file__).resolve().parents[3]
TINY = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 640,
    "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 4000,
    "max_position_embeddings": 1024, "tie_word_embeddings": False, "dtype": "float32", "eos_token_id": 1,
}  # fmt: skip


def measure(folder: Path, **settings: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.device.measuring", str(folder), json.dumps(settings)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def folder_with(config: dict[str, Any], place: Path) -> Path:
    (place / "config.json").write_text(json.dumps(config))
    return place


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 64}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"tie_word_embeddings": True},
        {"attention_bias": True, "mlp_bias": True},
        {"head_dim": 64},
        *(pytest.param({"quantization_config": one}, marks=pytest.mark.full) for one in (AWQ, FP8)),
    ],
    ids=["untied", "tied", "biases", "wide heads", "awq", "fp8"],
)
def test_every_tensor_of_a_small_model_is_planned_to_the_byte(tmp_path: Path, change: dict[str, Any]) -> None:
    found = measure(
        folder_with(TINY | change, tmp_path), load_format="dummy", dtype="float32", max_num_seqs=4
    )
    planned = found["plan"]
    assert found["cache"] == planned["kv_bytes"] > 0
    head_dim = change.get("head_dim", 32)
    rotations = (
        1024 * 2 * head_dim * 4
    )  # a table of cosines and sines, which the plan has among the activations
    assert found["tensors"] - found["cache"] - rotations == pytest.approx(planned["weight_bytes"], abs=4096)


@pytest.mark.full
@pytest.mark.parametrize("quantised", [AWQ, FP8], ids=["awq", "fp8"])
def test_a_quantised_model_takes_no_more_than_is_planned(tmp_path: Path, quantised: dict[str, Any]) -> None:
    wide = {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 16, "vocab_size": 1000}
    folder = folder_with(TINY | wide | {"quantization_config": quantised}, tmp_path)
    found = measure(folder, load_format="dummy", dtype="float32", max_num_seqs=2)
    planned = found["plan"]
    in_all = planned["weight_bytes"] + planned["kv_bytes"] + planned["activation_bytes"]
    print(found)
    assert found["peak"] <= 1.05 * in_all


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.full), "bfloat16"])
def test_the_real_model_takes_what_is_planned(dtype: str) -> None:
    if dtype == "bfloat16" and not linear.packs(load.DTYPES[dtype]):
        pytest.skip("this processor's products keep no packed weights")
    found = measure(model.ensure(), dtype=dtype, max_num_seqs=2)
    planned = found["plan"]
    in_all = planned["weight_bytes"] + planned["kv_bytes"] + planned["activation_bytes"]
    print(f"{dtype}: {found}")
    # The heap keeps some of what packing freed, so packed weights are looser.
    loose = 0.05 if dtype == "float32" else 0.1
    assert found["loaded"] == pytest.approx(planned["weight_bytes"], rel=loose)
    assert found["filled"] == pytest.approx(planned["kv_bytes"], rel=0.05)
    assert found["peak"] == pytest.approx(in_all, rel=0.15)
    assert 0.6 < found["process"] / fit.CPU_PROCESS_BYTES < 1.1


def test_the_engines_refusal_is_the_sentence_that_the_operator_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TINY | {"max_position_embeddings": 2_000_000, "num_hidden_layers": 24}
    settings = EngineSettings(model=str(folder_with(config, tmp_path)))
    monkeypatch.setattr(memory, "limit", lambda: 2 * 2**30)
    monkeypatch.setattr(memory, "process", lambda: fit.CPU_PROCESS_BYTES)
    with pytest.raises(InsufficientMemory) as refused:
        load.load(settings, lambda _: None)
    judged = fit.judge(config, settings, Device(2 * 2**30, 1, "cpu"))
    assert judged.verdict == "DoesNotFit"
    assert f"{refused.value.message}; {refused.value.hint}" == judged.message
    assert refused.value.figures == {"requiredBytes": judged.required, "availableBytes": judged.available}
