"""Mixtral: Mistral with a mixture of experts in every layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape

from llmservice_engine.models import llama, rope
from llmservice_engine.models.layers.traits import ExpertNames, Traits

_NAMES = ExpertNames(block="block_sparse_moe", gate="w1", up="w3", down="w2")


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    turned = rope.read(config, shape, theta=1e6)
    return dataclasses.replace(llama.plain(shape, config, turned), experts=_NAMES)
