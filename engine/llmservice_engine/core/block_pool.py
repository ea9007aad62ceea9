"""The physical blocks of the KV cache: who owns which."""

from __future__ import annotations

from collections.abc import Sequence


class BlockPool:
    """Fixed-size blocks, numbered from 0, with a reference count each.

    Released blocks are reused last in, first out, so that the memory touched stays as small as the load.
    """

    def __init__(self, blocks: int) -> None:
        self.size = blocks
        self._free = list(range(blocks - 1, -1, -1))  # the next one is at the end
        self._references = [0] * blocks

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the blocks in use, 0..1."""
        return 1 - len(self._free) / self.size

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks, each with one reference.

        Raises:
            ValueError: fewer than ``count`` blocks are free; none is taken.
        """
        if count > len(self._free):
            raise ValueError(f"{count} blocks asked for, {len(self._free)} of {self.size} are free")
        taken = [self._free.pop() for _ in range(count)]
        for block in taken:
            self._references[block] = 1
        return taken

    def share(self, blocks: Sequence[int]) -> None:
        """Add one reference to each block.

        Raises:
            ValueError: a block is free.
        """
        for block in blocks:
            self._owned(block)
            self._references[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Drop one reference of each block; a block without any is free again.

        Raises:
            ValueError: a block is free already.
        """
        for block in reversed(blocks):
            self._owned(block)
            self._references[block] -= 1
            if not self._references[block]:
                self._free.append(block)

    def _owned(self, block: int) -> None:
        if not self._references[block]:
            raise ValueError(f"block {block} is free: nobody can share or release it")
