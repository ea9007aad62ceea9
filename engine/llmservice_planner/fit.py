"""Does a model fit on a device that is only declared? For the operator's status, ``llmservice plan`` and the docs.

The figures and the sentence are :mod:`llmservice_planner.plan`'s, so they are the engine's own too; the engine has
measured what is assumed here: the overhead, and on a CPU that the processor computes in the checkpoint's type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from llmservice_planner import plan, shape
from llmservice_planner.activations import Kind
from llmservice_planner.dimensions import MOST_DEVICES
from llmservice_planner.errors import LengthError, ShapeError, SplitError
from llmservice_planner.plan import Infeasible, Plan, mib
from llmservice_planner.settings import EngineSettings
from llmservice_planner.shape import ModelShape

Verdict = Literal["Fits", "Tight", "DoesNotFit", "Unknown"]

# Anonymous memory of `llmservice-engine serve` before it loads anything: 330 MiB measured (torch 2.15, x86-64).
CPU_PROCESS_BYTES = 350 * 2**20
# Not measured here. The driver's reserve, the CUDA context and cuBLAS' workspaces; captured graphs; NCCL's buffers.
GPU_CONTEXT_BYTES = 768 * 2**20
GPU_GRAPH_BYTES = 512 * 2**20
GPU_COLLECTIVES_BYTES = 512 * 2**20

TIGHT_SEQUENCES = 2  # a cache of fewer sequences of the longest length is tight: long requests run one by one


@dataclass(frozen=True, slots=True)
class Device:
    """``memory_bytes`` is of one device; on a CPU the container's memory limit, and ``count`` is 1."""

    memory_bytes: int
    count: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Fit:
    """The verdict and its figures: bytes of one device. All are 0 where the verdict is Unknown.

    ``Tight``: fits, but the cache holds fewer than two sequences of the longest length. Where it does not fit,
    ``kv_cache`` and ``kv_tokens`` are of one such sequence, and ``required`` is more than ``available``, or the model
    cannot be run as asked at all.
    """

    verdict: Verdict
    weights: int
    kv_cache: int
    activations: int
    overhead: int  # the process, the driver, graphs, collectives: taken off before ``available``
    available: int  # for weights, activations and cache
    kv_tokens: int  # that the cache holds
    message: str  # one sentence
    required: int  # weights, activations and the cache of one sequence of the longest length


def judge(
    config: Mapping[str, Any], settings: EngineSettings, device: Device, weight_bytes: int | None = None
) -> Fit:
    """Whether the model of ``config`` (its ``config.json``) fits. Never raises.

    ``weight_bytes`` is the size of all its weight files, where known: it corrects the computed weights. The model is
    split over ``settings.tensor_parallel_size`` devices, or over all of them where that says 1.
    """
    try:
        model = shape.from_config(shape.overridden(config, settings.hf_overrides))
    except ShapeError as error:
        return _unknown(str(error))
    if device.memory_bytes <= 0:
        return _unknown("the memory of one device is not known")
    devices = _devices(settings, device)
    if devices > max(1, device.count):
        return _impossible(
            f"--tensor-parallel-size {devices} needs {devices} devices, there are {device.count}; "
            f"try --tensor-parallel-size {max(1, device.count)}"
        )
    try:
        return _fits(_make(model, settings, device, weight_bytes))
    except Infeasible as error:
        return _does_not_fit(error, settings, device)
    except (SplitError, LengthError) as error:
        return _impossible(str(error))


def longest(
    config: Mapping[str, Any], settings: EngineSettings, device: Device, weight_bytes: int | None = None
) -> int:
    """The largest ``--max-model-len`` that fits, at most the model's own limit; 0 where none does.

    Raises:
        ShapeError: as of :func:`llmservice_planner.shape.from_config`.
        SplitError: the model cannot be split over so many devices.
    """
    model = shape.from_config(shape.overridden(config, settings.hf_overrides))
    whole = settings.model_copy(update={"max_model_len": None})
    try:
        return _make(model, whole, device, weight_bytes).max_model_len
    except Infeasible as error:
        return error.longest


def _make(model: ModelShape, settings: EngineSettings, device: Device, weight_bytes: int | None) -> Plan:
    dtype = model.dtype if settings.dtype == "auto" else settings.dtype
    devices = _devices(settings, device)
    measured = None
    if weight_bytes:
        measured = round(
            model.weight_bytes(dtype, devices) * (weight_bytes / model.weight_bytes(model.dtype))
        )
    overhead = _overhead(device, devices)
    share = settings.gpu_memory_utilization
    return plan.make(
        model,
        dtype=dtype,
        available_bytes=plan.available(device.memory_bytes, overhead, share, device.kind),
        weight_bytes=measured,
        block_size=settings.block_size,
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        tensor_parallel_size=devices,
        kind=device.kind,
        packed=device.kind == "cpu" and dtype == "bfloat16",
        overhead_bytes=overhead,
        gpu_memory_utilization=share,
        most_devices=1 if device.kind == "cpu" else MOST_DEVICES,
        collectives_bytes=GPU_COLLECTIVES_BYTES if devices == 1 else 0,
    )


def _devices(settings: EngineSettings, device: Device) -> int:
    asked = settings.tensor_parallel_size
    return asked if asked > 1 else max(1, device.count)


def _overhead(device: Device, devices: int) -> int:
    if device.kind == "cpu":
        return CPU_PROCESS_BYTES
    return GPU_CONTEXT_BYTES + GPU_GRAPH_BYTES + (GPU_COLLECTIVES_BYTES if devices > 1 else 0)


def _fits(made: Plan) -> Fit:
    tight = made.full_length_sequences < TIGHT_SEQUENCES
    where = f", on each of {made.tensor_parallel_size} devices" if made.tensor_parallel_size > 1 else ""
    message = (
        f"weights {mib(made.weight_bytes)}, activations {mib(made.activation_bytes)} and a KV cache of "
        f"{mib(made.kv_bytes)} fit in {mib(made.available_bytes)}{where}: {made.kv_tokens:,} tokens, "
        f"{made.full_length_sequences:.1f} sequences of {made.max_model_len:,} tokens"
    )
    if tight:
        message += "; a smaller --max-model-len or more memory lets more long requests run at once"
    return Fit(
        verdict="Tight" if tight else "Fits",
        weights=made.weight_bytes,
        kv_cache=made.kv_bytes,
        activations=made.activation_bytes,
        overhead=made.overhead_bytes,
        available=made.available_bytes,
        kv_tokens=made.kv_tokens,
        message=message,
        required=made.required_bytes,
    )


def _does_not_fit(error: Infeasible, settings: EngineSettings, device: Device) -> Fit:
    return Fit(
        verdict="DoesNotFit",
        weights=error.weight_bytes,
        kv_cache=error.kv_bytes,
        activations=error.activation_bytes,
        overhead=_overhead(device, _devices(settings, device)),
        available=error.available_bytes,
        kv_tokens=error.max_model_len,
        message=str(error),
        required=error.required_bytes,
    )


def _unknown(reason: str) -> Fit:
    return Fit("Unknown", 0, 0, 0, 0, 0, 0, reason, 0)


def _impossible(reason: str) -> Fit:
    return dataclasses.replace(_unknown(reason), verdict="DoesNotFit")
