"""What the largest step takes beside weights and cache: bytes of scratch memory on one device.

The terms are those of the engine's own step (``models/decoder.py``, ``ops/attention/grouped.py``,
``sampling/sampler.py``), each at its largest, as if all fell together; ``tests/engine/device`` measures them.
"""

from __future__ import annotations

from typing import Literal

from llmservice_planner.dimensions import DTYPE_BYTES, ModelShape

Kind = Literal["gpu", "cpu"]

GATHER_TOKENS = 16_384  # that grouped attention gathers at once, where no sequence is longer (ops/attention)
DEQUANTISED = 2**20  # weights that are numbers at once (ops/quantized.py); a row of blocks where that is more
DEQUANTISED_BYTES = 16  # of each: its code unpacked, its number, its scale and its zero point in fp32
SAMPLER_ROWS = 32  # sequences whose fp32 and fp64 copies of the logits exist at once (sampling/sampler.py)


def step_bytes(
    shape: ModelShape,
    *,
    dtype: str,
    kv_dtype: str,
    kind: Kind,
    step_tokens: int,
    step_sequences: int,
    max_model_len: int,
    devices: int = 1,
) -> int:
    """Of a step with ``step_tokens`` tokens for ``step_sequences`` sequences, of at most ``max_model_len`` tokens."""
    size = DTYPE_BYTES[dtype]
    layer = step_tokens * layer_width(shape, devices) * size
    rotations = (
        shape.rotations * max_model_len * 2 * shape.head_dim * size
    )  # cosines and sines of every position
    logits = _logits(shape, kind, size, step_sequences)
    reference = 0
    if kind == "cpu":
        reference = _gather(shape, size, kv_dtype, step_tokens, step_sequences, max_model_len, devices)
        reference += _dequantised(shape)
    return layer + rotations + logits + reference


def layer_width(shape: ModelShape, devices: int = 1) -> int:
    """Numbers that one token needs at once in one layer, attention or feed-forward, whichever needs more.

    Residual, normed input, the other half's output and this half's. Attention: merged QKV, the rotated heads and two
    scratch copies of them. Feed-forward: gate and up merged, and their product, for every expert that is active.
    """
    turned = (shape.heads + max(shape.kv_heads, devices)) * shape.head_dim
    merged = turned + max(shape.kv_heads, devices) * shape.head_dim
    attention = (merged + 3 * turned) // devices
    feed = 3 * shape.intermediate // devices
    if shape.experts is not None:
        inner, active = shape.experts.intermediate // devices, shape.experts.active
        routed = active * (max(2 * inner, shape.hidden) + inner)  # outputs lie where gate and up were
        feed = max(feed, routed + 3 * shape.experts.shared_intermediate // devices)
    return 4 * shape.hidden + max(attention, feed)


def _logits(shape: ModelShape, kind: Kind, size: int, sequences: int) -> int:
    """On a CPU: all in the model's type, and for a few rows two fp32 copies, one of 8 bytes (fp64 or indices).

    On a GPU all rows are sampled together: the logits in fp32, sorted once, three copies.
    """
    if kind == "gpu":
        return 3 * 4 * sequences * shape.vocabulary
    return shape.vocabulary * (sequences * size + min(sequences, SAMPLER_ROWS) * (4 + 4 + 8))


def _dequantised(shape: ModelShape) -> int:
    if shape.quantization is None:
        return 0
    widest = max(shape.hidden, shape.intermediate, shape.heads * shape.head_dim)
    return DEQUANTISED_BYTES * max(DEQUANTISED, (shape.quantization.rows or 1) * widest)


def _gather(
    shape: ModelShape,
    size: int,
    kv_dtype: str,
    step_tokens: int,
    step_sequences: int,
    max_model_len: int,
    devices: int,
) -> int:
    """Keys and values gathered from their pages, scores twice (before and after the softmax), and the masks.

    Decoding gathers a group of sequences; a prompt's later chunk gathers its own sequence, under a mask of
    [chunk, length] that is there as booleans and as numbers.
    """
    tokens = max(max_model_len, min(GATHER_TOKENS, step_sequences * max_model_len))
    gathered = tokens * shape.kv_layer_bytes(kv_dtype, devices)
    scores = 2 * tokens * (shape.heads // devices) * size
    mask = step_tokens * max_model_len * (1 + size) if max_model_len > 1 else 0
    return gathered + max(scores, mask)
