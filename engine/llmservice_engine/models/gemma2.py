"""Gemma 2: norms before and after each block, soft caps, a window in every other layer, a scaled embedding."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape

from llmservice_engine.core.errors import UnsupportedArchitecture
from llmservice_engine.models import llama, rope
from llmservice_engine.models.layers.traits import NormNames, Traits
from llmservice_engine.models.rope import Rope

_NORMS = NormNames(
    after_attention="post_attention_layernorm",
    before_feed="pre_feedforward_layernorm",
    after_feed="post_feedforward_layernorm",
)


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    capped = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, **config}
    return gemma(
        shape,
        config,
        rope.read(config, shape),
        attention_cap=capped["attn_logit_softcapping"],
        logit_cap=capped["final_logit_softcapping"],
    )


def gemma(
    shape: ModelShape,
    config: Mapping[str, Any],
    turned: Rope,
    *,
    attention_cap: float | None,
    logit_cap: float | None,
) -> Traits:
    """What Gemma 2 and 3 have in common.

    Raises:
        UnsupportedArchitecture: attention in both directions is asked for, or see :func:`llama.plain`.
    """
    if config.get("use_bidirectional_attention"):
        raise UnsupportedArchitecture("use_bidirectional_attention is not served; served: false")
    scale = float(config.get("query_pre_attn_scalar", 256)) ** -0.5
    config = {"hidden_activation": "gelu_pytorch_tanh", **config}
    return dataclasses.replace(
        llama.plain(shape, config, turned, scale=scale, soft_cap=attention_cap),
        norms=_NORMS,
        norm_offset=1.0,
        embedding_scale=shape.hidden**0.5,
        logit_cap=logit_cap,
    )
