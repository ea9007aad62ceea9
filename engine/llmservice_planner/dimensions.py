"""A decoder's dimensions, and the tensors that follow from them: every figure of the planner is a sum over these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from llmservice_planner.errors import SplitError
from llmservice_planner.quantization import Quantization

DTYPE_BYTES: Mapping[str, int] = {"bfloat16": 2, "float16": 2, "float32": 4}
KV_DTYPE_BYTES: Mapping[str, int] = {**DTYPE_BYTES, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
MOST_DEVICES = 64  # that a hint may name

# How tensor parallelism shares a tensor: Megatron's column parallel layers give each device some output rows, row
# parallel ones some input columns; key and value heads are repeated where there are fewer of them than devices.
Split = Literal["none", "rows", "columns", "kv rows", "vocabulary"]


@dataclass(frozen=True, slots=True)
class Weight:
    """Tensors of one name in some layers: [copies, rows, columns] each; a vector has one column."""

    name: str  # as in the checkpoint, after "model.layers.N." where it lies in a layer
    rows: int
    columns: int = 1
    split: Split = "none"
    layers: Sequence[int] | None = None  # None: once in the model
    copies: int = 1  # experts of one layer
    linear: bool = False  # a linear layer's matrix, which a quantised checkpoint stores in its own way

    @property
    def elements(self) -> int:
        return self.rows * self.columns * self.copies * (1 if self.layers is None else len(self.layers))

    def modules(self) -> Iterator[str]:
        """The full name of each tensor's module."""
        if self.layers is None:
            yield self.name
        else:
            yield from (f"model.layers.{number}.{self.name}" for number in self.layers)


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts' figures, in each of its layers."""

    count: int
    active: int  # for one token
    intermediate: int  # of one expert
    layers: tuple[int, ...]  # that have experts; the others are dense
    shared_intermediate: int = 0  # of the experts that every token passes through, together
    shared_gate: bool = False  # Qwen2-MoE weighs the shared expert by a gate of its own
    biases: bool = False  # of router and experts: gpt-oss
    router_bias: bool = False  # DeepSeek-V3's score correction


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """DeepSeek's MLA: one compressed vector a token is cached, the same on every device."""

    query_rank: int | None  # None: queries are not compressed
    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder's dimensions. Counts are per model, not per device."""

    architecture: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int  # tokens, the model's own limit
    tied_embeddings: bool
    dtype: str  # of the checkpoint
    qkv_bias: bool = False
    output_bias: bool = False
    feed_bias: bool = False
    qk_norms: int = 0  # weights of a layer's norms of queries and keys
    norms: int = 2  # of the hidden size in each layer
    rotations: int = 1  # tables of cosines and sines: kinds of layer that turn differently
    sinks: bool = False  # gpt-oss: one learnt logit a head
    experts: Experts | None = None
    latent: LatentAttention | None = None
    window: int | None = None  # tokens that a sliding layer sees
    sliding: tuple[int, ...] = ()  # the layers that slide
    other_parameters: int = 0  # of parts beside the decoder that are loaded too: Gemma 3's eye
    quantization: Quantization | None = None

    @property
    def window_layers(self) -> int:
        return len(self.sliding)

    def parameters(self) -> int:
        """Number of weights; of a quantised checkpoint, as many as before it was quantised."""
        return sum(weight.elements for weight in self.weights()) + self.other_parameters

    def weight_bytes(self, dtype: str, tensor_parallel_size: int = 1) -> int:
        """Bytes of the weights on one device. ``dtype`` is of what is not quantised.

        Raises:
            SplitError: see :meth:`check_split`.
        """
        self.check_split(tensor_parallel_size)
        size = DTYPE_BYTES[dtype]
        own = sum(self._bytes(weight, size, tensor_parallel_size) for weight in self.weights())
        return own + self.other_parameters * size

    def kv_layer_bytes(self, dtype: str, tensor_parallel_size: int = 1) -> int:
        """Keys and values of one token in one layer on one device."""
        if self.latent is not None:
            return (self.latent.kv_rank + self.latent.rope_dim) * KV_DTYPE_BYTES[dtype]
        heads = max(1, self.kv_heads // tensor_parallel_size)
        return 2 * heads * self.head_dim * KV_DTYPE_BYTES[dtype]

    def kv_bytes_per_token(self, dtype: str, tensor_parallel_size: int = 1) -> int:
        """Keys and values of one token in all layers on one device, while no window bounds any of them."""
        return self.layers * self.kv_layer_bytes(dtype, tensor_parallel_size)

    def check_split(self, devices: int) -> None:
        """Tensor parallelism shares out whole heads, whole feed-forward columns, and whole quantisation groups.

        Raises:
            SplitError: something does not divide; the message has the figures, the hint the counts that do.
        """
        problem = self._split_problem(devices)
        if problem:
            counts = [str(n) for n in range(1, MOST_DEVICES + 1) if not self._split_problem(n)]
            raise SplitError(
                f"{problem} over {devices} devices",
                hint=f"try a --tensor-parallel-size of {', '.join(counts)}",
            )

    def weights(self) -> Iterator[Weight]:
        """Every tensor of the decoder."""
        everywhere = range(self.layers)
        yield Weight("model.embed_tokens", self.vocabulary, self.hidden, "vocabulary")
        if not self.tied_embeddings:
            yield Weight("lm_head", self.vocabulary, self.hidden, "vocabulary", linear=True)
        yield Weight("model.norm", self.hidden)
        yield Weight("norms", self.hidden, layers=everywhere, copies=self.norms)
        yield from self._latent(self.latent) if self.latent is not None else self._attention()
        sparse = frozenset(self.experts.layers if self.experts is not None else ())
        dense = tuple(number for number in everywhere if number not in sparse)
        yield from _gated("mlp", self.hidden, self.intermediate, dense, bias=self.feed_bias)
        if self.experts is not None:
            yield from self._mixture(self.experts)

    def _attention(self) -> Iterator[Weight]:
        everywhere = range(self.layers)
        attended, cached = self.heads * self.head_dim, self.kv_heads * self.head_dim
        parts: tuple[tuple[str, int, Split], ...] = (
            ("q_proj", attended, "rows"),
            ("k_proj", cached, "kv rows"),
            ("v_proj", cached, "kv rows"),
        )
        for name, rows, split in parts:
            yield Weight(f"self_attn.{name}", rows, self.hidden, split, everywhere, linear=True)
            if self.qkv_bias:
                yield Weight(f"self_attn.{name}", rows, 1, split, everywhere)
        yield Weight("self_attn.o_proj", self.hidden, attended, "columns", everywhere, linear=True)
        if self.output_bias:
            yield Weight("self_attn.o_proj", self.hidden, 1, "none", everywhere)
        if self.qk_norms:
            yield Weight("self_attn.qk_norms", self.qk_norms, layers=everywhere)
        if self.sinks:
            yield Weight("self_attn.sinks", self.heads, 1, "rows", everywhere)

    def _latent(self, mla: LatentAttention) -> Iterator[Weight]:
        everywhere = range(self.layers)
        query = self.heads * (mla.nope_dim + mla.rope_dim)
        queries_from = self.hidden
        if mla.query_rank is not None:
            queries_from = mla.query_rank
            yield Weight("self_attn.q_a_proj", mla.query_rank, self.hidden, "none", everywhere, linear=True)
            yield Weight("self_attn.q_a_layernorm", mla.query_rank, layers=everywhere)
        yield Weight("self_attn.q_proj", query, queries_from, "rows", everywhere, linear=True)
        compressed = mla.kv_rank + mla.rope_dim
        yield Weight("self_attn.kv_a_proj_with_mqa", compressed, self.hidden, "none", everywhere, linear=True)
        yield Weight("self_attn.kv_a_layernorm", mla.kv_rank, layers=everywhere)
        both = self.heads * (mla.nope_dim + mla.value_dim)
        yield Weight("self_attn.kv_b_proj", both, mla.kv_rank, "rows", everywhere, linear=True)
        values = self.heads * mla.value_dim
        yield Weight("self_attn.o_proj", self.hidden, values, "columns", everywhere, linear=True)
        if self.qkv_bias:
            yield Weight("self_attn.a_biases", compressed + (mla.query_rank or 0), layers=everywhere)
        if self.output_bias:
            yield Weight("self_attn.o_proj", self.hidden, layers=everywhere)

    def _mixture(self, experts: Experts) -> Iterator[Weight]:
        yield Weight("mlp.gate", experts.count, self.hidden, layers=experts.layers)
        if experts.biases or experts.router_bias:
            yield Weight("mlp.gate", experts.count, layers=experts.layers)
        yield from _gated(
            "mlp.experts", self.hidden, experts.intermediate, experts.layers,
            copies=experts.count, bias=experts.biases,
        )  # fmt: skip
        if experts.shared_intermediate:
            yield from _gated("mlp.shared_expert", self.hidden, experts.shared_intermediate, experts.layers)
        if experts.shared_gate:
            yield Weight("mlp.shared_expert_gate", 1, self.hidden, layers=experts.layers)

    def _bytes(self, weight: Weight, size: int, devices: int) -> int:
        """Of ``weight``'s part on one device."""
        rows, columns = self._part(weight, devices)
        plain = rows * columns * size * weight.copies
        if self.quantization is None or not weight.linear:
            return plain * (1 if weight.layers is None else len(weight.layers))
        quantised = self.quantization.matrix_bytes(rows, columns, size) * weight.copies
        return sum(
            plain if self.quantization.leaves_out(module) else quantised for module in weight.modules()
        )

    def _part(self, weight: Weight, devices: int) -> tuple[int, int]:
        match weight.split:
            case "rows":
                return weight.rows // devices, weight.columns
            case "kv rows":
                return weight.rows // min(devices, self.kv_heads), weight.columns
            case "columns":
                return weight.rows, weight.columns // devices
            case "vocabulary":
                return -(-weight.rows // devices), weight.columns
            case "none":
                return weight.rows, weight.columns

    def _split_problem(self, devices: int) -> str:
        if self.heads % devices:
            return f"{self.heads} attention heads cannot be split"
        if self.latent is None and self.kv_heads % devices and devices % self.kv_heads:
            return f"{self.kv_heads} key/value heads can neither be split nor repeated"
        group = self.quantization.columns if self.quantization is not None else None
        pads = (
            self.quantization is not None and self.quantization.method == "mxfp4"
        )  # kernels fill the last block
        for weight in self.weights():
            if weight.split not in ("rows", "columns") or not weight.linear:
                continue
            side = weight.rows if weight.split == "rows" else weight.columns
            if side % devices:
                return f"{weight.name} of width {side} cannot be split"
            whole = group if weight.split == "columns" and not pads else None
            if whole and devices > 1 and side // devices % whole:
                return f"{weight.name} of width {side} in quantisation groups of {whole} cannot be split"
        return ""


def _gated(
    name: str, hidden: int, intermediate: int, layers: Sequence[int], *, copies: int = 1, bias: bool = False
) -> Iterator[Weight]:
    """A gated feed-forward layer: two matrices up, one down."""
    for part in ("gate_proj", "up_proj"):
        full = f"{name}.{part}"
        yield Weight(full, intermediate, hidden, "rows", layers, copies, linear=True)
        if bias:
            yield Weight(full, intermediate, 1, "rows", layers, copies)
    full = f"{name}.down_proj"
    yield Weight(full, hidden, intermediate, "columns", layers, copies, linear=True)
    if bias:
        yield Weight(full, hidden, 1, "none", layers, copies)
