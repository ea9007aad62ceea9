"""Phi-3 and Phi-4: Llama whose checkpoint holds merged matrices, and whose heads may turn in part."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape

from llmservice_engine.models import llama, rope
from llmservice_engine.models.layers.traits import Traits


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    turned = rope.read(config, shape, partial=True)
    return dataclasses.replace(llama.plain(shape, config, turned), merged=True)
