"""What cannot be served is refused by name and figure, before anything is served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from llmservice_engine.core.errors import (
    InsufficientMemory,
    InvalidSettings,
    ModelNotFound,
    StartupError,
    UnsupportedArchitecture,
    WeightsIncomplete,
)
from safetensors.torch import load_file, save_file

from tests.engine.models import generating
from tests.engine.models.conftest import MakeCheckpoint
from tests.engine.models.test_checkpoints import change_config


def refusal(folder: Path, kind: type[StartupError], **settings: Any) -> StartupError:
    with pytest.raises(StartupError) as caught:
        generating.load(folder, **settings)
    assert type(caught.value) is kind
    return caught.value


def rewrite(folder: Path, change: dict[str, torch.Tensor | None]) -> None:
    """Replace tensors of the checkpoint; None takes one away."""
    tensors: dict[str, torch.Tensor | None] = {**load_file(folder / "model.safetensors"), **change}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    error = refusal(tmp_path / "nowhere", ModelNotFound)
    assert str(tmp_path / "nowhere") in error.message


def test_a_hub_name_is_not_downloaded() -> None:
    error = refusal(Path("meta-llama/Meta-Llama-3-8B-Instruct"), ModelNotFound)
    assert "not downloaded" in error.hint


def test_a_folder_without_config(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    (folder / "config.json").unlink()
    assert f"{folder} holds no config.json" in refusal(folder, ModelNotFound).message


def test_a_folder_without_weights(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    (folder / "model.safetensors").unlink()
    assert f"{folder} holds no weights" in refusal(folder, ModelNotFound).message


@pytest.mark.parametrize("text", ['{"architectures": ["Llama', "[]", "", "\xff"])
def test_a_config_that_is_no_json_object(checkpoint: MakeCheckpoint, text: str) -> None:
    folder = checkpoint()
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    assert str(folder / "config.json") in refusal(folder, WeightsIncomplete).message


def test_a_missing_shard_is_named(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(shard_size="20KB")
    gone = sorted(folder.glob("model-*.safetensors"))[1]
    gone.unlink()
    error = refusal(folder, WeightsIncomplete)
    assert gone.name in error.message
    assert error.figures == {"missingFiles": 1}


def test_an_index_without_a_map_is_named(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(shard_size="20KB")
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "model.safetensors.index.json has no weight_map" in refusal(folder, WeightsIncomplete).message


@pytest.mark.parametrize("keep", [0, 6, 200, 0.5, -1])
def test_a_truncated_file_is_named(checkpoint: MakeCheckpoint, keep: float) -> None:
    file = checkpoint() / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * keep) if keep == 0.5 else int(keep)])
    assert str(file) in refusal(file.parent, WeightsIncomplete).message


def test_a_damaged_header_is_named(checkpoint: MakeCheckpoint) -> None:
    file = checkpoint() / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[8:40] = b"\xff" * 32
    file.write_bytes(content)
    assert str(file) in refusal(file.parent, WeightsIncomplete).message


def test_missing_tensors_are_named(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    rewrite(folder, {"model.layers.1.mlp.up_proj.weight": None})
    error = refusal(folder, WeightsIncomplete)
    assert "model.layers.1.mlp.up_proj.weight" in error.message
    assert error.figures == {"missingTensors": 1}


def test_an_untied_checkpoint_without_head_is_refused_by_name(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(tie_word_embeddings=False)
    rewrite(folder, {"lm_head.weight": None})
    assert "lm_head.weight" in refusal(folder, WeightsIncomplete).message


def test_unexpected_tensors_are_named(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    rewrite(folder, {"model.layers.0.self_attn.q_norm.weight": torch.ones(8)})
    assert "model.layers.0.self_attn.q_norm.weight" in refusal(folder, UnsupportedArchitecture).message


def test_a_tensor_of_another_shape_is_named_with_both_shapes(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    rewrite(folder, {"model.layers.0.mlp.down_proj.weight": torch.ones(32, 47)})
    message = refusal(folder, WeightsIncomplete).message
    assert "model.layers.0.mlp.down_proj.weight" in message
    assert "[32, 47]" in message
    assert "[32, 48]" in message


def test_integer_weights_are_refused(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    rewrite(folder, {"model.layers.0.mlp.down_proj.weight": torch.ones(32, 48, dtype=torch.int8)})
    assert "int8" in refusal(folder, UnsupportedArchitecture).message


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({"rope_parameters": None, "rope_scaling": {"type": "mrope", "factor": 4.0}}, "mrope"),
        ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "short_factor"),
        ({"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0, 2.0]}}, "4 numbers are needed"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}, "factor"),
        ({"rope_parameters": {"rope_type": "linear", "factor": "twice"}}, "factor"),
        ({"hidden_act": "relu"}, "relu"),
        ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5"),
        ({"hidden_size": -32}, "hidden_size"),
    ],
)
def test_what_a_config_asks_for_and_is_not_served_is_named(
    checkpoint: MakeCheckpoint, change: dict[str, Any], named: str
) -> None:
    folder = checkpoint()
    change_config(folder, **change)
    assert named in refusal(folder, UnsupportedArchitecture).message


def test_a_length_beyond_the_models_own_is_refused_with_both_figures(checkpoint: MakeCheckpoint) -> None:
    error = refusal(checkpoint(), InvalidSettings, max_model_len=129)
    assert error.figures == {"maxModelLen": 129, "modelContext": 128}
    assert "--max-model-len 128" in error.hint


def test_too_little_memory_is_refused_with_figures_and_before_weights_are_read(
    checkpoint: MakeCheckpoint,
) -> None:
    folder = checkpoint()
    change_config(folder, max_position_embeddings=2_000_000_000)
    (folder / "model.safetensors").unlink()
    error = refusal(folder, InsufficientMemory)
    assert error.figures["requiredBytes"] > error.figures["availableBytes"] > 0
    assert "--max-model-len" in error.hint


def test_the_length_that_the_hint_names_does_fit(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    limit = json.loads((folder / "config.json").read_text())["max_position_embeddings"]
    assert generating.load(folder, max_model_len=limit).info.max_model_len == limit
