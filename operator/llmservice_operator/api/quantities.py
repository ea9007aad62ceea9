"""Kubernetes quantities: ``1000m`` is ``1``, ``1Gi`` is ``1073741824``."""

from __future__ import annotations

import re
from fractions import Fraction

PATTERN = r"^[+]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$"
_NUMBER = re.compile(r"([+-]?)([0-9]*\.?[0-9]*)([A-Za-z0-9+-]*)")
_SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 10**3), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9),
    "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30),
    "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip


def parse(quantity: int | str) -> Fraction:
    """The exact value.

    Raises:
        ValueError: not a quantity.
    """
    text = str(quantity)
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f"{text!r} is not a quantity; write it like 4, 500m or 16Gi")
    match = _NUMBER.fullmatch(text)
    assert match is not None, "PATTERN is stricter"
    _, number, suffix = match.groups()
    if suffix in _SUFFIXES:
        return Fraction(number) * _SUFFIXES[suffix]
    exponent = int(suffix[1:])
    if abs(exponent) > 30:
        raise ValueError(f"{text!r} is out of a quantity's range")
    return Fraction(number) * Fraction(10) ** exponent


def canonical(quantity: int | str) -> str:
    """One spelling for every equal quantity."""
    return str(parse(quantity))


def equal(one: object, other: object) -> bool:
    """Are both quantities, and of one value?"""
    if not isinstance(one, int | str) or not isinstance(other, int | str):
        return False
    try:
        return parse(one) == parse(other)
    except ValueError:
        return False


def readable(count: int) -> str:
    """Bytes for people, in the decimal units of downloads: ``16.1 GB``."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1000:.0f} kB"


def gib(count: int) -> str:
    """Bytes as a quantity: whole Gi where it is a multiple, else plain bytes."""
    return f"{count // 2**30}Gi" if count and count % 2**30 == 0 else str(count)
