"""Which decoder serves which architecture. A model is added here, and to the planner's list of architectures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from llmservice_planner.shape import ModelShape
from torch import Tensor

from llmservice_engine.models.llama import Llama
from llmservice_engine.ops.attention.interface import StepAttention


class Decoder(Protocol):
    """A model between token ids and logits."""

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


DECODERS: Mapping[str, Callable[[ModelShape, Mapping[str, Any], torch.dtype, str], Decoder]] = {
    "LlamaForCausalLM": Llama,
}


def build(shape: ModelShape, config: Mapping[str, Any], dtype: torch.dtype, device: str) -> Decoder:
    """A decoder with empty weights.

    Raises:
        UnsupportedArchitecture: something in ``config`` is not served; the message names it.
    """
    return DECODERS[shape.architecture](shape, config, dtype, device)
