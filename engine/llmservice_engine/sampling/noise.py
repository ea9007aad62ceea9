"""Numbers that look random, from a seed and a position.

A request's draws depend on nothing but its own seed and how far it has come: not on its neighbours in the batch, nor
on preemption, nor on the process.
"""

from __future__ import annotations

_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) with 53 bits, by SplitMix64's finaliser over seed, then position."""
    return (_mix((_mix(seed & _WORD) + position) & _WORD) >> 11) * 2.0**-53


def _mix(word: int) -> int:
    word = (word + _GOLDEN) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)
