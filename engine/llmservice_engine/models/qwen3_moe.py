"""Qwen 3 with a mixture of experts in most layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape

from llmservice_engine.models import qwen3
from llmservice_engine.models.layers.traits import Traits


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    return dataclasses.replace(
        qwen3.traits(shape, config), renormalise=bool(config.get("norm_topk_prob", False))
    )
