"""A decoder over a paged cache, driven step by step, whose logits at all positions are looked at."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from llmservice_engine.core.step import Chunk
from llmservice_engine.models import folder as model_folder
from llmservice_engine.models import registry
from llmservice_engine.models.weights import checkpoint
from llmservice_engine.ops.attention.choose import choose
from llmservice_engine.ops.attention.interface import allocate
from llmservice_planner import shape as model_shape

BLOCK = 8


class Stepper:
    """Each sequence's blocks lie scattered in the cache."""

    @torch.inference_mode()
    def __init__(self, folder: Path, context: int | None = None, blocks: int = 64) -> None:
        config = model_folder.read_config(folder)
        shape = model_shape.from_config(config)
        shape = dataclasses.replace(shape, context=context or shape.context)
        self._model = registry.build(shape, config, torch.float32, "cpu")
        checkpoint.load(folder, self._model.targets(), self._model.unused, lambda _: None)
        self._model.finish()
        cache = allocate(
            layers=shape.layers, blocks=blocks, kv_heads=shape.kv_heads, block_size=BLOCK,
            head_dim=shape.head_dim, dtype=torch.float32, device="cpu",
        )  # fmt: skip
        for tensor in cache.keys + cache.values:
            tensor.fill_(float("nan"))  # nothing may come of what no token has written
        self._attention = choose(cache, heads=shape.heads, layers=self._model.attention)
        self._free = torch.randperm(blocks, generator=torch.Generator().manual_seed(3)).tolist()
        self._tables: dict[str, tuple[int, ...]] = {}
        self._known: dict[str, int] = {}

    @torch.inference_mode()
    def step(self, tokens: Mapping[str, Sequence[int]]) -> dict[str, torch.Tensor]:
        """The next tokens of some sequences. Returns each one's logits: [tokens, vocabulary]."""
        chunks = sorted(
            (self._chunk(name, ids) for name, ids in tokens.items() if ids),
            key=lambda chunk: (len(chunk.token_ids) > 1, len(chunk.block_table)),
        )
        ids = torch.tensor([token for chunk in chunks for token in chunk.token_ids])
        positions = torch.tensor([place for chunk in chunks for place in range(chunk.start, chunk.end)])
        hidden = self._model.forward(ids, positions, self._attention.prepare(chunks))
        rows = self._model.logits(hidden).split([len(chunk.token_ids) for chunk in chunks])
        return {chunk.request_id: own for chunk, own in zip(chunks, rows, strict=True)}

    def _chunk(self, name: str, ids: Sequence[int]) -> Chunk:
        start = self._known.get(name, 0)
        self._known[name] = start + len(ids)
        table = self._tables.get(name, ())
        while len(table) * BLOCK < start + len(ids):
            table += (self._free.pop(),)
        self._tables[name] = table
        return Chunk(name, tuple(ids), start, table, None)


def in_pieces(stepper: Stepper, prompts: Mapping[str, Sequence[int]], piece: int) -> dict[str, torch.Tensor]:
    """All of the prompts together, ``piece`` tokens of each a step. Returns their logits."""
    found: dict[str, list[torch.Tensor]] = {name: [] for name in prompts}
    for begin in range(0, max(map(len, prompts.values())), piece):
        step = stepper.step({name: prompt[begin : begin + piece] for name, prompt in prompts.items()})
        for name, logits in step.items():
            found[name].append(logits)
    return {name: torch.cat(parts) for name, parts in found.items()}
