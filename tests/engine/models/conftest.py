"""The real model, loaded once in fp32, and small checkpoints that transformers writes."""

from __future__ import annotations

import llmservice_engine.device  # noqa: F401 (first of all: it says how threads wait, which torch reads once)

# isort: split
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from llmservice_engine.device import load
from llmservice_engine.device.load import Loaded
from llmservice_engine.engine import Engine
from llmservice_planner.settings import EngineSettings
from transformers import LlamaConfig, LlamaForCausalLM

from e2e import model

MakeCheckpoint = Callable[..., Path]


@pytest.fixture(scope="session")
def model_folder() -> Path:
    return model.ensure()


SETTINGS = {"dtype": "float32", "gpu_memory_utilization": 0.5}


@pytest.fixture(scope="session")
def loaded(model_folder: Path) -> Loaded:
    """SmolLM2 in fp32."""
    return load.load(EngineSettings(model=str(model_folder), **SETTINGS), lambda _: None)


@pytest.fixture(scope="session")
def engine(loaded: Loaded) -> Engine:
    """With default settings. Tests leave it idle."""
    return Engine(loaded.runner, loaded.info, EngineSettings(model="shared"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> MakeCheckpoint:
    """Writes a small random Llama; keyword arguments go into its config."""

    def make(shard_size: str = "5GB", name: str = "tiny", **config: object) -> Path:
        torch.manual_seed(1)
        shape = {
            "vocab_size": 96,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 128,
            "tie_word_embeddings": False,
            "initializer_range": 0.2,  # large enough that logits differ clearly
        }
        made = LlamaForCausalLM(LlamaConfig(**{**shape, **config}))
        for parameter in made.parameters():
            if parameter.dim() == 1:  # norms of 1 and biases of 0 would hide a mix-up
                torch.nn.init.normal_(parameter, mean=0.5, std=0.2)
        made.save_pretrained(tmp_path / name, max_shard_size=shard_size)
        return tmp_path / name

    return make
