"""Running requests through an engine, for tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llmservice_engine.core.outputs import TokenDelta
from llmservice_engine.core.request import NewRequest
from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.device.load import Loaded
from llmservice_engine.engine import Engine
from llmservice_planner.settings import EngineSettings


def greedy(max_tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, temperature=0)


def load(folder: Path, **settings: Any) -> Engine:
    return Engine.load(
        EngineSettings(**{"model": str(folder), "dtype": "float32", **settings}), lambda _: None
    )


def drive(engine: Engine) -> list[TokenDelta]:
    """Step until nothing is left to do."""
    deltas = []
    while engine.has_work:
        deltas += engine.step()
    return deltas


def texts(
    engine: Engine,
    prompts: Mapping[str, Sequence[int]],
    params: SamplingParams | Mapping[str, SamplingParams],
) -> dict[str, tuple[int, ...]]:
    """The tokens of each prompt, all of them in flight together."""
    for name, prompt in prompts.items():
        own = params if isinstance(params, SamplingParams) else params[name]
        engine.add(NewRequest(name, tuple(prompt), own))
    found: dict[str, tuple[int, ...]] = dict.fromkeys(prompts, ())
    for delta in drive(engine):
        found[delta.request_id] += delta.token_ids
    return found


def squeezed(loaded: Loaded, *, blocks: int, **settings: int) -> Engine:
    """Another engine over the same weights and cache, which it may use only in part. Run one at a time."""
    info = dataclasses.replace(loaded.info, blocks=blocks)
    return Engine(loaded.runner, info, EngineSettings(model="shared", **settings))
