"""SmolLM 3: Llama whose every fourth layer does not know positions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape, unrotated_layers

from llmservice_engine.models import llama, rope
from llmservice_engine.models.layers.traits import Traits


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    turned = rope.read(config, shape, theta=2e6)
    blind = unrotated_layers(config, shape.layers)
    ropes = tuple(None if number in blind else turned for number in range(shape.layers))
    return dataclasses.replace(llama.plain(shape, config, turned), ropes=ropes)
