"""Does it fit? Shape, settings and memory to a frozen :class:`Plan`, or :class:`Infeasible` with figures.

The sentence of an :class:`Infeasible` is the only one: the operator's condition, ``llmservice plan`` and the
engine's own refusal all print it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmservice_planner import activations
from llmservice_planner.activations import Kind
from llmservice_planner.dimensions import DTYPE_BYTES, MOST_DEVICES, ModelShape
from llmservice_planner.errors import LengthError, SplitError
from llmservice_planner.shape import SUPPORTED_ARCHITECTURES


@dataclass(frozen=True, slots=True)
class Plan:
    """What the engine will allocate. Bytes are per device."""

    dtype: str
    weight_bytes: int
    activation_bytes: int
    kv_bytes: int
    available_bytes: int  # for these three
    block_size: int  # tokens
    blocks: int
    max_model_len: int  # tokens
    overhead_bytes: int = 0  # the process itself, before any of the three
    tensor_parallel_size: int = 1
    required_bytes: int = 0  # with one full-length sequence: the least with which it would start

    @property
    def kv_tokens(self) -> int:
        """Tokens that the cache holds; where layers slide, in sequences of the longest length."""
        return self.blocks * self.block_size

    @property
    def full_length_sequences(self) -> float:
        """How many sequences of the longest length the cache holds at once."""
        return self.kv_tokens / self.max_model_len

    @property
    def block_table_bytes(self) -> int:
        """An int32 for each block: which block holds which tokens of which sequence."""
        return 4 * self.blocks


class Infeasible(ValueError):
    """The model, or one sequence of the longest length, does not fit: need, have, try. Bytes are per device."""

    def __init__(
        self,
        message: str,
        *,
        required_bytes: int,
        available_bytes: int,
        hint: str,
        weight_bytes: int = 0,
        activation_bytes: int = 0,
        kv_bytes: int = 0,  # of one sequence of max_model_len tokens
        max_model_len: int = 0,
        longest: int = 0,  # tokens of a sequence that would fit; 0: none
    ) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.required_bytes = required_bytes
        self.available_bytes = available_bytes
        self.hint = hint
        self.weight_bytes = weight_bytes
        self.activation_bytes = activation_bytes
        self.kv_bytes = kv_bytes
        self.max_model_len = max_model_len
        self.longest = longest


@dataclass(frozen=True, slots=True)
class Demand:
    """What a model asks of one device, for any length and any number of devices."""

    shape: ModelShape
    dtype: str
    kv_dtype: str
    kind: Kind
    packed: bool  # products keep a packed copy of their weight, so a tied embedding is there twice
    weight_factor: float  # measured weights over computed ones
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int

    def weights(self, devices: int) -> int:
        looked_up = 0
        if self.packed and self.shape.tied_embeddings:
            rows = -(-self.shape.vocabulary // devices)
            looked_up = rows * self.shape.hidden * DTYPE_BYTES[self.dtype]
        computed = self.shape.weight_bytes(self.dtype, devices) + looked_up
        return round(computed * self.weight_factor)

    def activations(self, length: int, devices: int) -> int:
        return activations.step_bytes(
            self.shape,
            dtype=self.dtype,
            kv_dtype=self.kv_dtype,
            kind=self.kind,
            step_tokens=self.max_num_batched_tokens,
            step_sequences=min(self.max_num_seqs, self.max_num_batched_tokens),
            max_model_len=length,
            devices=devices,
        )

    def sequence(self, length: int, devices: int) -> int:
        """The cache of one sequence of ``length`` tokens, in whole blocks.

        The bundled engine keeps all tokens in all layers: one block table serves them all. What it does not serve is
        run by another one, whose sliding layers keep their window and the chunk that is being computed (vLLM's
        ``SlidingWindowSpec``).
        """
        layer = self.shape.kv_layer_bytes(self.kv_dtype, devices) * self.block_size
        whole = -(-length // self.block_size)
        seen = whole
        if self.shape.window is not None and self.shape.architecture not in SUPPORTED_ARCHITECTURES:
            kept = self.shape.window - 1 + self.max_num_batched_tokens
            seen = min(whole, -(-kept // self.block_size) + 1)
        return layer * (
            whole * (self.shape.layers - self.shape.window_layers) + seen * self.shape.window_layers
        )

    def total(self, length: int, devices: int) -> int:
        """With one sequence of ``length`` tokens, the least with which the engine starts."""
        return self.weights(devices) + self.activations(length, devices) + self.sequence(length, devices)

    def longest(self, room: int, most: int, devices: int) -> int:
        """The longest sequence, in whole blocks and at most ``most`` tokens, that fits in ``room``; 0: none."""
        low, high = 0, most // self.block_size
        while low < high:
            middle = (low + high + 1) // 2
            if self.total(middle * self.block_size, devices) <= room:
                low = middle
            else:
                high = middle - 1
        return low * self.block_size


def make(
    shape: ModelShape,
    *,
    dtype: str,
    available_bytes: int,
    weight_bytes: int | None = None,
    block_size: int,
    max_model_len: int | None,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    tensor_parallel_size: int = 1,
    kv_dtype: str | None = None,
    kind: Kind = "gpu",
    packed: bool = False,
    overhead_bytes: int = 0,
    gpu_memory_utilization: float = 1.0,
    most_devices: int = MOST_DEVICES,
    collectives_bytes: int = 0,
) -> Plan:
    """Share ``available_bytes`` of one device between weights, activations and the KV cache.

    ``available_bytes`` is :func:`available`: the device's share after what the process itself takes, which is
    ``overhead_bytes``. ``weight_bytes`` is one device's measured figure, where it is known, without the second copy
    of a tied embedding that ``packed`` products need. ``most_devices`` is how many a hint may ask for, and
    ``collectives_bytes`` what each of several devices would lose of ``available_bytes`` beside a single one.

    Raises:
        Infeasible: less than one full-length sequence would fit.
        SplitError: the model cannot be split over ``tensor_parallel_size`` devices.
        LengthError: ``max_model_len`` is beyond the model's own limit.
    """
    length = wanted_length(shape, max_model_len)
    devices = tensor_parallel_size
    computed = shape.weight_bytes(dtype, devices)
    demand = Demand(
        shape=shape,
        dtype=dtype,
        kv_dtype=dtype if kv_dtype in (None, "auto") else str(kv_dtype),
        kind=kind,
        packed=packed,
        weight_factor=1.0 if weight_bytes is None else weight_bytes / computed,
        block_size=block_size,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
    )
    if demand.total(length, devices) > available_bytes:
        several = available_bytes - collectives_bytes
        raise _refusal(
            demand, length, devices, available_bytes, several, gpu_memory_utilization, most_devices
        )
    return _plan(demand, length, devices, available_bytes, overhead_bytes)


def wanted_length(shape: ModelShape, max_model_len: int | None) -> int:
    """Tokens of the longest sequence.

    Raises:
        LengthError: more than the model's own limit.
    """
    if max_model_len is not None and max_model_len > shape.context:
        raise LengthError(max_model_len, shape.context)
    return max_model_len or shape.context


def available(memory_bytes: int, overhead_bytes: int, share: float, kind: Kind) -> int:
    """Bytes of one device for weights, activations and cache.

    On a GPU ``share`` is of the whole device, as in vLLM, and the process's own overhead comes out of it. On a CPU it
    is of what the process leaves.
    """
    if kind == "cpu":
        return max(0, int((memory_bytes - overhead_bytes) * share))
    return max(0, int(memory_bytes * share) - overhead_bytes)


def mib(count: int) -> str:
    """Bytes for people: ``1,234 MiB``."""
    return f"{count / 2**20:,.0f} MiB"


def _plan(demand: Demand, length: int, devices: int, available_bytes: int, overhead_bytes: int) -> Plan:
    """What is left after weights and activations goes to the cache, up to what ``max_num_seqs`` can fill."""
    required, sequence = demand.total(length, devices), demand.sequence(length, devices)
    need = -(-length // demand.block_size)
    kv_bytes = min(available_bytes - (required - sequence), demand.max_num_seqs * sequence)
    blocks = kv_bytes * need // sequence
    return Plan(
        dtype=demand.dtype,
        weight_bytes=demand.weights(devices),
        activation_bytes=demand.activations(length, devices),
        kv_bytes=blocks * sequence // need,
        available_bytes=available_bytes,
        block_size=demand.block_size,
        blocks=blocks,
        max_model_len=length,
        overhead_bytes=overhead_bytes,
        tensor_parallel_size=devices,
        required_bytes=required,
    )


def _refusal(
    demand: Demand, length: int, devices: int, room: int, room_of_several: int, share: float, most: int
) -> Infeasible:
    """With the next move: a length that fits, else a number of devices, else how much memory is missing."""
    weights, scratch = demand.weights(devices), demand.activations(length, devices)
    sequence = demand.sequence(length, devices)
    required = weights + scratch + sequence
    longest = demand.longest(room, length, devices)
    if longest:
        hint = f"try --max-model-len {longest} (the largest that fits)"
    elif more := _least_devices(demand, length, devices, room_of_several, most):
        hint = f"try {more} such devices (--tensor-parallel-size {more}, the least that fit)"
    else:
        missing = math.ceil((required - room) / share / 2**20) * 2**20
        hint = f"try {mib(missing)} more memory{' a device' if demand.kind == 'gpu' else ''}"
    where = f" on each of {devices} devices" if devices > 1 else ""
    return Infeasible(
        f"weights {mib(weights)}, activations {mib(scratch)} and the KV cache of one sequence of "
        f"{length:,} tokens {mib(sequence)} need {mib(required)}, {mib(room)} are available{where}",
        required_bytes=required,
        available_bytes=room,
        hint=hint,
        weight_bytes=weights,
        activation_bytes=scratch,
        kv_bytes=sequence,
        max_model_len=length,
        longest=longest,
    )


def _least_devices(demand: Demand, length: int, devices: int, room: int, most: int) -> int:
    """The least number of devices, more than ``devices``, on which one sequence of ``length`` fits; 0: none."""
    for count in range(devices + 1, most + 1):
        try:
            if demand.total(length, count) <= room:
                return count
        except SplitError:
            continue
    return 0
