"""Qwen 3: Llama with queries and keys normed head by head."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape

from llmservice_engine.models import llama
from llmservice_engine.models.layers.traits import Traits


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    return dataclasses.replace(llama.traits(shape, config), qk_norm="head")
