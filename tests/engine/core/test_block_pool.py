"""Who owns which block: nothing is lost, nothing is owned twice."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule
from llmservice_engine.core.block_pool import BlockPool

BLOCKS = 12


class Pool(RuleBasedStateMachine):
    """Owners take, share and release blocks in any order; a plain list of owned blocks is the model."""

    owners = Bundle("owners")

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(BLOCKS)
        self.owned: list[list[int]] = []

    @rule(target=owners, count=st.integers(0, 4))
    @precondition(lambda self: self.pool.free >= 4)
    def take(self, count: int) -> list[int]:
        taken = self.pool.allocate(count)
        assert len(taken) == count
        in_use = {block for blocks in self.owned for block in blocks}
        assert not in_use & set(taken), "a block in use was given out again"
        self.owned.append(taken)
        return taken

    @rule(target=owners, blocks=owners)
    def share(self, blocks: list[int]) -> list[int]:
        self.pool.share(blocks)
        copy = list(blocks)
        self.owned.append(copy)
        return copy

    @rule(blocks=consumes(owners))
    def release(self, blocks: list[int]) -> None:
        self.pool.release(blocks)
        index = next(i for i, candidate in enumerate(self.owned) if candidate is blocks)
        del self.owned[index]

    @rule()
    def ask_for_too_many(self) -> None:
        free = self.pool.free
        with pytest.raises(ValueError, match=f"{free + 1} blocks asked for, {free} of {BLOCKS} are free"):
            self.pool.allocate(free + 1)
        assert self.pool.free == free

    @invariant()
    def free_and_owned_blocks_are_all_blocks(self) -> None:
        in_use = {block for blocks in self.owned for block in blocks}
        assert self.pool.free == BLOCKS - len(in_use)
        assert self.pool.usage == pytest.approx(len(in_use) / BLOCKS)


Pool.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestNoBlockIsLeakedOrDoublyOwned = Pool.TestCase


def test_released_blocks_are_reused_before_untouched_ones() -> None:
    pool = BlockPool(8)
    first = pool.allocate(3)
    pool.release(first)
    assert pool.allocate(3) == first == [0, 1, 2]


def test_a_free_block_can_neither_be_released_nor_shared() -> None:
    pool = BlockPool(2)
    blocks = pool.allocate(1)
    pool.release(blocks)
    with pytest.raises(ValueError, match="block 0 is free"):
        pool.release(blocks)
    with pytest.raises(ValueError, match="block 0 is free"):
        pool.share(blocks)
