"""Does it fit? Shape, settings and memory to a frozen :class:`Plan`, or :class:`Infeasible` with figures."""

from __future__ import annotations

from dataclasses import dataclass

from llmservice_planner.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Plan:
    """What the engine will allocate. Bytes are per device."""

    dtype: str
    weight_bytes: int
    activation_bytes: int
    kv_bytes: int
    available_bytes: int
    block_size: int  # tokens
    blocks: int
    max_model_len: int  # tokens

    @property
    def kv_tokens(self) -> int:
        return self.blocks * self.block_size

    @property
    def full_length_sequences(self) -> float:
        """How many sequences of the longest length the cache holds at once."""
        return self.kv_tokens / self.max_model_len


class Infeasible(ValueError):
    """The model, or one sequence of the longest length, does not fit: need, have, try."""

    def __init__(self, message: str, *, required_bytes: int, available_bytes: int, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.required_bytes = required_bytes
        self.available_bytes = available_bytes
        self.hint = hint


def make(
    shape: ModelShape,
    *,
    dtype: str,
    available_bytes: int,
    weight_bytes: int | None,
    block_size: int,
    max_model_len: int | None,
    max_num_seqs: int,
    max_num_batched_tokens: int,
) -> Plan:
    """Share ``available_bytes`` between weights, activations and the KV cache.

    ``available_bytes`` is the device's share for the model, after what the process itself takes.
    ``weight_bytes`` is the measured figure where the weights are already loaded, else None.

    Raises:
        Infeasible: less than one full-length sequence would fit.
    """
    length = max_model_len or shape.context
    weights = shape.weight_bytes(dtype) if weight_bytes is None else weight_bytes
    activations = shape.activation_bytes(
        dtype, max_num_batched_tokens, min(max_num_seqs, max_num_batched_tokens)
    )
    block_bytes = block_size * shape.kv_bytes_per_token(dtype)
    room = available_bytes - weights - activations
    fit = max(0, room // block_bytes)
    need = -(-length // block_size)
    if fit < need:
        required = weights + activations + need * block_bytes
        longest = fit * block_size
        hint = (
            f"try --max-model-len {longest} (the largest that fits)"
            if longest
            else "try more memory, a smaller --max-num-batched-tokens or a smaller dtype"
        )
        raise Infeasible(
            f"weights {mib(weights)}, activations {mib(activations)} and the KV cache of one sequence of "
            f"{length} tokens {mib(need * block_bytes)} need {mib(required)}, {mib(available_bytes)} are available",
            required_bytes=required,
            available_bytes=available_bytes,
            hint=hint,
        )
    blocks = min(fit, max_num_seqs * need)
    return Plan(
        dtype=dtype,
        weight_bytes=weights,
        activation_bytes=activations,
        kv_bytes=blocks * block_bytes,
        available_bytes=available_bytes,
        block_size=block_size,
        blocks=blocks,
        max_model_len=length,
    )


def mib(count: int) -> str:
    """Bytes for people: ``1,234 MiB``."""
    return f"{count / 2**20:,.0f} MiB"
