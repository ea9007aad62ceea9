"""Every attention against the plain reference, over a table of shapes."""

from __future__ import annotations

import pytest
import torch
from llmservice_engine.core.step import Chunk
from llmservice_engine.ops.attention.choose import choose
from llmservice_engine.ops.attention.interface import KVCache, LayerAttention, allocate
from llmservice_engine.ops.attention.reference import ReferenceAttention

BLOCKS = 64
SIZE = 8
DIM = 16

# A layer each: plain, with a scale of its own, windows within a block, of one block and across several, soft caps.
LAYERS = (
    LayerAttention(DIM**-0.5),
    LayerAttention(0.3),
    LayerAttention(0.25, window=1),
    LayerAttention(0.25, window=SIZE),
    LayerAttention(0.25, window=2 * SIZE + 3),
    LayerAttention(0.5, soft_cap=1.5),
    LayerAttention(0.5, window=13, soft_cap=1.5),
)
# Chunks as (start, tokens), those of one token first and shortest first.
STEPS = {
    "one sequence decodes": [(20, 1)],
    "first token of all": [(0, 1)],
    "a full block decodes": [(15, 1)],
    "a block begins": [(16, 1)],
    "like lengths decode": [(17, 1), (18, 1), (22, 1), (23, 1)],
    "unlike lengths decode": [(0, 1), (3, 1), (60, 1), (100, 1)],
    "a whole prompt": [(0, 21)],
    "a later chunk": [(13, 9)],
    "all of it": [(5, 1), (40, 1), (41, 1), (0, 11), (24, 8), (7, 2)],
}


def make_cache(kv_heads: int, dtype: torch.dtype) -> KVCache:
    return allocate(
        layers=len(LAYERS),
        blocks=BLOCKS,
        kv_heads=kv_heads,
        block_size=SIZE,
        head_dim=DIM,
        dtype=dtype,
        device="cpu",
    )


def chunks_of(step: list[tuple[int, int]]) -> list[Chunk]:
    """Chunks with scattered block tables."""
    order = torch.randperm(BLOCKS, generator=torch.Generator().manual_seed(5)).tolist()
    chunks = []
    for number, (start, count) in enumerate(step):
        blocks = -(-(start + count) // SIZE)
        table, order = tuple(order[:blocks]), order[blocks:]
        chunks.append(Chunk(str(number), (0,) * count, start, table, None))
    return chunks


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_attention_equals_the_reference(
    step: list[tuple[int, int]], heads: int, kv_heads: int, dtype: torch.dtype, bound: float
) -> None:
    torch.manual_seed(0)
    chunks = chunks_of(step)
    caches = [make_cache(kv_heads, dtype) for _ in range(2)]
    for plain, other in zip(
        caches[0].keys + caches[0].values, caches[1].keys + caches[1].values, strict=True
    ):
        other.copy_(plain.normal_())
    tokens = sum(count for _, count in step)
    steps = [
        ReferenceAttention(caches[0], heads=heads, layers=LAYERS).prepare(chunks),
        choose(caches[1], heads=heads, layers=LAYERS).prepare(chunks),
    ]
    for layer in range(len(LAYERS)):
        inputs = [torch.randn(tokens, n, DIM).to(dtype) for n in (heads, kv_heads, kv_heads)]
        wanted, got = (attend(layer, *inputs) for attend in steps)
        assert got.shape == (tokens, heads * DIM)
        torch.testing.assert_close(got, wanted, rtol=bound, atol=bound)


def test_what_the_last_owner_left_in_a_block_does_not_matter() -> None:
    """Blocks full of NaN: neither the padding of a block nor that of a group lets any of it through."""
    cache = make_cache(2, torch.float32)
    for tensor in cache.keys + cache.values:
        tensor.fill_(float("nan"))
    attention = choose(cache, heads=4, layers=LAYERS)
    tables = {"a": (3, 9, 4), "b": (5, 2, 7)}
    for begin, end in ((0, 5), (5, 6), (6, 16), (16, 17), (17, 18)):
        chunks = [
            Chunk(name, (0,) * (end - begin), begin, table[: -(-end // SIZE)], None)
            for name, table in tables.items()
        ]
        tokens = 2 * (end - begin)
        attend = attention.prepare(chunks)
        for layer in range(len(LAYERS)):
            inputs = [torch.randn(tokens, heads, DIM) for heads in (4, 2, 2)]
            assert attend(layer, *inputs).isfinite().all()
