"""What tells one family of decoders from another, beside their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmservice_engine.models.rope import Rope
from llmservice_engine.ops.attention.interface import LayerAttention


@dataclass(frozen=True, slots=True)
class NormNames:
    """The norms of a layer, by their names in the checkpoint; None: there is none at that place."""

    before_attention: str | None = "input_layernorm"
    after_attention: str | None = None
    before_feed: str | None = "post_attention_layernorm"
    after_feed: str | None = None


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """The modules of a mixture of experts, by their names in the checkpoint."""

    block: str = "mlp"
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"


@dataclass(frozen=True, slots=True)
class Traits:
    """A family's ways. The defaults are Llama's."""

    ropes: tuple[Rope | None, ...]  # a layer each; None: the layer does not know positions
    attention: tuple[LayerAttention, ...]  # a layer each
    epsilon: float = 1e-6
    activation: str = "silu"
    norms: NormNames = NormNames()
    norm_offset: float = 0.0  # added to every norm's weight: 1 in Gemma's checkpoints
    qk_norm: Literal["head", "width"] | None = None
    merged: bool = (
        False  # the checkpoint holds queries, keys and values as one tensor, gate and up as another
    )
    experts: ExpertNames = ExpertNames()
    renormalise: bool = True  # the chosen experts' weights sum to 1
    embedding_scale: float = 1.0
    residual_scale: float = 1.0  # of what attention and feed-forward add
    logit_scale: float = 1.0
    logit_cap: float | None = None
    prefix: str = "model"  # of all names but the head's
    head: str = "lm_head"
    passed_over: tuple[str, ...] = ()  # beginnings of the names of what is not loaded
