"""From settings to a model that is ready to run, or a refusal with figures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from llmservice_planner import plan as planner
from llmservice_planner import shape as model_shape
from llmservice_planner.plan import Plan
from llmservice_planner.settings import EngineSettings
from llmservice_planner.shape import ModelShape

from llmservice_engine.core.errors import (
    InsufficientGPUMemory,
    InsufficientMemory,
    InvalidSettings,
    UnsupportedArchitecture,
)
from llmservice_engine.core.outputs import EngineInfo
from llmservice_engine.device import memory
from llmservice_engine.device.model_runner import ModelRunner
from llmservice_engine.models import folder as model_folder
from llmservice_engine.models import registry, weights
from llmservice_engine.models.registry import Decoder
from llmservice_engine.ops import linear
from llmservice_engine.ops.attention.choose import choose
from llmservice_engine.ops.attention.interface import allocate

DTYPES: Mapping[str, torch.dtype] = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}


@dataclass(frozen=True, slots=True)
class Loaded:
    runner: ModelRunner
    info: EngineInfo


def load(settings: EngineSettings, progress: Callable[[str], None]) -> Loaded:
    """Read the model, share out the memory, warm up.

    Raises:
        StartupError: the model, the settings or the machine do not allow it; nothing large is left in memory.
    """
    begun = time.monotonic()
    folder = Path(settings.model)
    progress("configuration")
    config = model_folder.read_config(folder)
    shape = _shape(config)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and "OMP_NUM_THREADS" not in os.environ:  # else the user has decided
        torch.set_num_threads(memory.threads())
    dtype = _dtype(settings, shape, device)
    plan = _plan(settings, shape, dtype, device)
    with torch.inference_mode():
        model = _model(settings, folder, config, shape, DTYPES[dtype], device, progress)
        cache = allocate(
            layers=shape.layers,
            blocks=plan.blocks,
            kv_heads=shape.kv_heads,
            block_size=plan.block_size,
            head_dim=shape.head_dim,
            dtype=DTYPES[dtype],
            device=device,
        )
    runner = ModelRunner(model, choose(cache, heads=shape.heads), device)
    progress("warming up")
    runner.warm_up(min(plan.block_size, plan.max_model_len, settings.max_num_batched_tokens))
    return Loaded(
        runner,
        EngineInfo(
            max_model_len=plan.max_model_len,
            vocabulary=shape.vocabulary,
            eos_token_ids=model_folder.eos_token_ids(
                config, model_folder.read_optional(folder / "generation_config.json")
            ),
            dtype=dtype,
            device=device,
            block_size=plan.block_size,
            blocks=plan.blocks,
            weight_bytes=plan.weight_bytes,
            kv_bytes=plan.kv_bytes,
            parameters=shape.parameters(),
            load_seconds=time.monotonic() - begun,
        ),
    )


def _shape(config: Mapping[str, Any]) -> ModelShape:
    try:
        return model_shape.from_config(config)
    except model_shape.ShapeError as error:
        raise UnsupportedArchitecture(str(error), hint="use a model of a served architecture") from None


def _dtype(settings: EngineSettings, shape: ModelShape, device: str) -> str:
    """The type of weights and cache. ``auto`` on a CPU: the checkpoint's only where the processor computes in it."""
    if settings.dtype != "auto":
        return settings.dtype
    instructions = {"bfloat16": ("avx512_bf16", "amx_bf16", "bf16"), "float16": ("avx512_fp16", "amx_fp16")}
    if device == "cpu" and not memory.has_instructions(*instructions.get(shape.dtype, ())):
        return "float32"
    return shape.dtype


def _plan(settings: EngineSettings, shape: ModelShape, dtype: str, device: str) -> Plan:
    if settings.max_model_len is not None and settings.max_model_len > shape.context:
        raise InvalidSettings(
            f"--max-model-len {settings.max_model_len} is more than the model's own limit of {shape.context} tokens",
            hint=f"try --max-model-len {shape.context}, or leave it out",
            figures={"maxModelLen": settings.max_model_len, "modelContext": shape.context},
        )
    refusal = InsufficientMemory if device == "cpu" else InsufficientGPUMemory
    try:
        return planner.make(
            shape,
            dtype=dtype,
            available_bytes=_available(settings.gpu_memory_utilization, device),
            weight_bytes=shape.weight_bytes(dtype) + _look_up_bytes(shape, dtype, device),
            block_size=settings.block_size,
            max_model_len=settings.max_model_len,
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
        )
    except planner.Infeasible as error:
        figures = {"requiredBytes": error.required_bytes, "availableBytes": error.available_bytes}
        raise refusal(error.message, hint=error.hint, figures=figures) from None


def _available(share: float, device: str) -> int:
    """Bytes for weights, activations and cache."""
    if device == "cpu":
        return max(0, int((memory.limit() - memory.process()) * share))
    free, total = torch.cuda.mem_get_info()
    return max(0, int(total * share) - (total - free))


def _look_up_bytes(shape: ModelShape, dtype: str, device: str) -> int:
    """Where products keep a packed weight, a tied embedding is there twice: packed for the head, plain for look-up."""
    if device != "cpu" or not shape.tied_embeddings or not linear.packs(DTYPES[dtype]):
        return 0
    return shape.vocabulary * shape.hidden * model_shape.DTYPE_BYTES[dtype]


def _model(
    settings: EngineSettings,
    folder: Path,
    config: Mapping[str, Any],
    shape: ModelShape,
    dtype: torch.dtype,
    device: str,
    progress: Callable[[str], None],
) -> Decoder:
    model = registry.build(shape, config, dtype, device)
    if settings.load_format == "dummy":
        progress("random weights")
        weights.randomise(model.targets(), settings.seed)
    else:
        weights.load(folder, model.targets(), model.unused, progress)
    model.finish()
    return model
