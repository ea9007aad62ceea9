"""OLMo 2: norms after each block and none before, queries and keys normed over all their heads together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape

from llmservice_engine.models import llama
from llmservice_engine.models.layers.traits import NormNames, Traits

_NORMS = NormNames(
    before_attention=None,
    after_attention="post_attention_layernorm",
    before_feed=None,
    after_feed="post_feedforward_layernorm",
)


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    config = {"rms_norm_eps": 1e-5, **config}
    return dataclasses.replace(llama.traits(shape, config), norms=_NORMS, qk_norm="width")
