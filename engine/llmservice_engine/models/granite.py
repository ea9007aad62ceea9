"""Granite: Llama with a factor at four places."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape

from llmservice_engine.models import llama, rope
from llmservice_engine.models.layers.traits import Traits


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    def factor(name: str) -> float:
        return float(config.get(name, 1.0))

    return dataclasses.replace(
        llama.plain(shape, config, rope.read(config, shape), scale=factor("attention_multiplier")),
        embedding_scale=factor("embedding_multiplier"),
        residual_scale=factor("residual_multiplier"),
        logit_scale=1 / factor("logits_scaling"),
    )
