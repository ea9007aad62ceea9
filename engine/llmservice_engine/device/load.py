"""From settings to a model that is ready to run, or a refusal with figures."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from llmservice_planner import plan as planner
from llmservice_planner import shape as model_shape
from llmservice_planner.errors import LengthError
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
from llmservice_engine.models import registry
from llmservice_engine.models.registry import Decoder
from llmservice_engine.models.weights import checkpoint
from llmservice_engine.models.weights import registry as formats
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
    config = model_shape.overridden(model_folder.read_config(folder), settings.hf_overrides)
    gguf = model_folder.gguf_file(folder, settings.load_format)
    shape = _shape(config, settings.quantization, gguf=gguf is not None)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and "OMP_NUM_THREADS" not in os.environ:  # else the user has decided
        torch.set_num_threads(memory.threads())
    dtype = _dtype(settings, shape, device)
    plan = _plan(settings, shape, dtype, device)
    with torch.inference_mode():
        served = dataclasses.replace(shape, context=plan.max_model_len)  # no table goes beyond it
        model = _model(settings, folder, config, served, DTYPES[dtype], device, progress)
        cache = allocate(
            layers=shape.layers,
            blocks=plan.blocks,
            kv_heads=shape.kv_heads,
            block_size=plan.block_size,
            head_dim=shape.head_dim,
            dtype=DTYPES[dtype],
            device=device,
        )
    runner = ModelRunner(model, choose(cache, heads=shape.heads, layers=model.attention), device)
    progress("warming up")
    runner.warm_up(min(plan.block_size, plan.max_model_len, settings.max_num_batched_tokens))
    return Loaded(
        runner,
        EngineInfo(
            max_model_len=plan.max_model_len,
            vocabulary=shape.vocabulary,
            eos_token_ids=model_folder.eos_token_ids(
                config, model_folder.read_optional(model_folder.home(folder) / "generation_config.json")
            ),
            dtype=dtype,
            device=device,
            block_size=plan.block_size,
            blocks=plan.blocks,
            weight_bytes=plan.weight_bytes,
            kv_bytes=plan.kv_bytes,
            activation_bytes=plan.activation_bytes,
            overhead_bytes=plan.overhead_bytes,
            available_bytes=plan.available_bytes,
            parameters=shape.parameters(),
            load_seconds=time.monotonic() - begun,
        ),
    )


def _shape(config: Mapping[str, Any], quantization: str | None, *, gguf: bool) -> ModelShape:
    """The planner can size more architectures than are served here."""
    name = next(iter(config.get("architectures") or ()), "(none)")
    if name not in registry.DECODERS:
        raise UnsupportedArchitecture(
            f"architecture {name} is not served; served: {', '.join(registry.DECODERS)}",
            hint="use a model of a served architecture",
        )
    try:
        formats.check(model_shape.text_fields(config), quantization, gguf=gguf)
        # No part beside the decoder is loaded.
        return dataclasses.replace(model_shape.from_config(config), other_parameters=0)
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
    refusal = InsufficientMemory if device == "cpu" else InsufficientGPUMemory
    overhead, available = _memory(settings.gpu_memory_utilization, device)
    try:
        return planner.make(
            shape,
            dtype=dtype,
            available_bytes=available,
            block_size=settings.block_size,
            max_model_len=settings.max_model_len,
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            kind="cpu" if device == "cpu" else "gpu",
            packed=device == "cpu" and linear.packs(DTYPES[dtype]),
            overhead_bytes=overhead,
            gpu_memory_utilization=settings.gpu_memory_utilization,
            most_devices=1,  # so many are served
        )
    except LengthError as error:
        figures = {"maxModelLen": settings.max_model_len or 0, "modelContext": shape.context}
        raise InvalidSettings(error.message, hint=error.hint, figures=figures) from None
    except planner.Infeasible as error:
        figures = {"requiredBytes": error.required_bytes, "availableBytes": error.available_bytes}
        raise refusal(error.message, hint=error.hint, figures=figures) from None


def _memory(share: float, device: str) -> tuple[int, int]:
    """Bytes that this process takes already, and bytes for weights, activations and cache."""
    if device == "cpu":
        own = memory.process()
        return own, planner.available(memory.limit(), own, share, "cpu")
    free, total = torch.cuda.mem_get_info()
    return total - free, planner.available(total, total - free, share, "gpu")


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
        checkpoint.randomise(model.targets(), settings.seed)
    else:
        checkpoint.load(folder, model.targets(), model.unused, progress, settings.load_format)
    model.finish()
    return model
