"""Which decoder serves which architecture. A model is added here, and to the planner's list of architectures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from llmservice_planner.shape import ModelShape, text_fields
from torch import Tensor

from llmservice_engine.models import (
    gemma2,
    gemma3,
    granite,
    llama,
    mistral,
    mixtral,
    olmo2,
    phi3,
    qwen2,
    qwen3,
    qwen3_moe,
    smollm3,
)
from llmservice_engine.models.decoder import Transformer
from llmservice_engine.models.layers.traits import Traits
from llmservice_engine.models.weights import registry as weights
from llmservice_engine.ops.attention.interface import LayerAttention, StepAttention


class Decoder(Protocol):
    """A model between token ids and logits."""

    @property
    def attention(self) -> Sequence[LayerAttention]:
        """What each layer asks of the attention operation, in order."""
        ...

    def targets(self) -> Mapping[str, Tensor]:
        """Where each tensor of a checkpoint goes, by its name there; parts of merged tensors are views."""
        ...

    def unused(self, name: str) -> bool:
        """Whether a checkpoint may hold a tensor of that name which is not needed."""
        ...

    def finish(self) -> None:
        """Called once, after the targets are filled: choose and pack the products."""
        ...

    def forward(self, token_ids: Tensor, positions: Tensor, attention: StepAttention) -> Tensor:
        """token_ids, positions: [tokens]. Returns [tokens, hidden], normed."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """[sequences, hidden], rows of :meth:`forward` → [sequences, vocabulary]."""
        ...


DECODERS: Mapping[str, Callable[[ModelShape, Mapping[str, Any]], Traits]] = {
    "LlamaForCausalLM": llama.traits,
    "MistralForCausalLM": mistral.traits,
    "MixtralForCausalLM": mixtral.traits,
    "Qwen2ForCausalLM": qwen2.traits,
    "Qwen3ForCausalLM": qwen3.traits,
    "Qwen3MoeForCausalLM": qwen3_moe.traits,
    "Gemma2ForCausalLM": gemma2.traits,
    "Gemma3ForCausalLM": gemma3.traits,
    "Gemma3ForConditionalGeneration": gemma3.beside_an_eye,
    "Phi3ForCausalLM": phi3.traits,
    "Olmo2ForCausalLM": olmo2.traits,
    "GraniteForCausalLM": granite.traits,
    "SmolLM3ForCausalLM": smollm3.traits,
}


def build(shape: ModelShape, config: Mapping[str, Any], dtype: torch.dtype, device: str) -> Decoder:
    """A decoder with empty weights.

    Raises:
        UnsupportedArchitecture: something in ``config`` is not served; the message names it.
    """
    fields = text_fields(config)
    traits = DECODERS[shape.architecture](shape, fields)
    return Transformer(shape, traits, weights.maker(fields, dtype, device))
