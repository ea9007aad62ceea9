"""Gemma 3's text model: Gemma 2 with normed queries and keys, and another rotary base where layers slide."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape

from llmservice_engine.models import gemma2, rope
from llmservice_engine.models.layers.traits import Traits


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    whole = rope.read(config, shape, theta=1e6, kind="full_attention")
    sliding = rope.read(_sliding(config), shape, kind="sliding_attention")
    found = gemma2.gemma(
        shape,
        config,
        whole,
        # The published models have neither; transformers passes the first one over, so it is not served.
        attention_cap=None,
        logit_cap=config.get("final_logit_softcapping"),
    )
    ropes = tuple(sliding if number in shape.sliding else whole for number in range(shape.layers))
    return dataclasses.replace(found, ropes=ropes, qk_norm="head")


def beside_an_eye(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    """The text model of a checkpoint that also sees: images are not served, and what reads them is not loaded."""
    return dataclasses.replace(
        traits(shape, config),
        prefix="language_model.model",
        head="language_model.lm_head",
        passed_over=("vision_tower.", "multi_modal_projector."),
    )


def _sliding(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Older files scale full layers only, and name the sliding ones' base apart."""
    own = (config.get("rope_parameters") or {}).get("sliding_attention")
    if isinstance(own, Mapping):
        return config
    theta = config.get("rope_local_base_freq", rope.DEFAULT_THETA)
    return {**config, "rope_parameters": {"rope_theta": theta}, "rope_scaling": None}
