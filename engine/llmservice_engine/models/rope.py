"""A model's rotary frequencies, from whichever spelling its ``config.json`` has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from llmservice_planner.shape import ModelShape
from torch import Tensor

from llmservice_engine.core.errors import UnsupportedArchitecture

DEFAULT_THETA = 10_000.0

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Rope:
    """How one kind of layer turns queries and keys. Compared by identity: layers share one."""

    frequencies: (
        Tensor  # radians a position, for each pair of the dimensions that turn: [rotary_dim / 2], fp32
    )
    magnitude: float = 1.0  # of cosines and sines


@dataclass(frozen=True, slots=True)
class _Asked:
    """What ``config.json`` says, in one spelling."""

    parameters: Config
    theta: float
    dim: int  # of a head's dimensions, those that turn
    longest: int  # tokens that will be served
    limit: int  # max_position_embeddings
    original: int  # tokens of the original training

    @property
    def plain(self) -> Tensor:
        return self.powers(self.theta)

    def powers(self, theta: float) -> Tensor:
        return 1.0 / theta ** (torch.arange(0, self.dim, 2, dtype=torch.float32) / self.dim)

    def figure(self, key: str) -> float:
        """A figure that has to be there."""
        try:
            return float(self.parameters[key])
        except (KeyError, TypeError, ValueError) as error:
            raise _incomplete(self.parameters, key, error) from None

    def optional(self, key: str, default: float) -> float:
        return default if self.parameters.get(key) is None else self.figure(key)

    def figures(self, key: str) -> Tensor:
        """One figure for each frequency."""
        found = self.parameters.get(key)
        if not isinstance(found, list) or len(found) != self.dim // 2:
            raise _incomplete(self.parameters, key, f"{self.dim // 2} numbers are needed")
        return torch.tensor(found, dtype=torch.float32)


def read(
    config: Config, shape: ModelShape, *, theta: float = DEFAULT_THETA, kind: str = "", partial: bool = False
) -> Rope:
    """The rotation of a model's layers, or of those that ``layer_types`` calls ``kind``.

    Newer folders say ``rope_parameters: {rope_theta, rope_type, ...}``, or one such object for each kind of layer;
    older ones ``rope_theta`` and, where scaled, ``rope_scaling: {rope_type | type, ...}``. ``theta`` is the family's
    default. ``partial``: the family may turn only the first dimensions of a head.

    Two scalings depend on the sequence's length in transformers: ``dynamic`` and ``longrope``. Here the longest
    length that is served decides, once, since keys of all lengths lie in one cache.

    Raises:
        UnsupportedArchitecture: a kind of scaling that is not implemented, or one that lacks a figure.
    """
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if isinstance(parameters.get(kind), Mapping):
        parameters = parameters[kind]
    named = str(parameters.get("rope_type") or parameters.get("type") or "default")
    if named == "su" or (named == "yarn" and "long_factor" in parameters):
        named = "longrope"  # as the first Phi-3 files called it
    if named not in _SCALINGS:
        raise UnsupportedArchitecture(
            f"rope scaling {named!r} is not served; served: {', '.join(_SCALINGS)}",
            hint="use a model without it: its text would be wrong",
        )
    share = float(parameters.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1)
    if share != 1 and not partial:
        raise UnsupportedArchitecture(
            f"partial_rotary_factor {share:g} is not served for {shape.architecture}; served: 1"
        )
    limit = int(config.get("max_position_embeddings") or shape.context)
    original = (
        config.get("original_max_position_embeddings")
        or parameters.get("original_max_position_embeddings")
        or limit
    )
    return _SCALINGS[named](
        _Asked(
            parameters=parameters,
            theta=float(parameters.get("rope_theta") or config.get("rope_theta") or theta),
            dim=int(shape.head_dim * share),
            longest=shape.context,
            limit=limit,
            original=int(original),
        )
    )


def _default(asked: _Asked) -> Rope:
    return Rope(asked.plain)


def _linear(asked: _Asked) -> Rope:
    """Positions as if the text were that much shorter."""
    return Rope(asked.plain / asked.figure("factor"))


def _dynamic(asked: _Asked) -> Rope:
    """A larger base, so that the slowest frequency turns no further than it did in training."""
    factor, length = asked.figure("factor"), max(asked.longest, asked.limit)
    stretch = factor * length / asked.limit - (factor - 1)
    return Rope(asked.powers(asked.theta * stretch ** (asked.dim / (asked.dim - 2))))


def _llama3(asked: _Asked) -> Rope:
    """Slow frequencies divided by the factor, fast ones kept, a smooth passage between."""
    low, high = asked.figure("low_freq_factor"), asked.figure("high_freq_factor")
    plain = asked.plain
    turns = asked.figure("original_max_position_embeddings") * plain / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return Rope(plain / asked.figure("factor") * (1 - kept) + plain * kept)


def _yarn(asked: _Asked) -> Rope:
    """As Llama 3's, the passage being linear in the dimension; and attention is sharpened a little."""
    factor = asked.optional("factor", asked.limit / asked.original)
    low, high = (
        asked.dim
        * math.log(asked.original / (2 * math.pi * asked.optional(key, default)))
        / (2 * math.log(asked.theta))
        for key, default in (("beta_fast", 32.0), ("beta_slow", 1.0))
    )
    if asked.parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, asked.dim - 1)
    steps = torch.arange(asked.dim // 2, dtype=torch.float32)
    slowed = ((steps - low) / ((high - low) or 0.001)).clamp(0, 1)
    plain = asked.plain
    return Rope(plain / factor * slowed + plain * (1 - slowed), _yarn_magnitude(asked, factor))


def _yarn_magnitude(asked: _Asked, factor: float) -> float:
    def of(scale: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

    scale, scale_all = asked.optional("mscale", 0), asked.optional("mscale_all_dim", 0)
    own = of(scale) / of(scale_all) if scale and scale_all else of(1)
    return asked.optional("attention_factor", own)


def _longrope(asked: _Asked) -> Rope:
    """Each frequency has divisors of its own, one for short and one for long contexts."""
    divisors = asked.figures("long_factor" if asked.longest > asked.original else "short_factor")
    factor = asked.optional("factor", asked.limit / asked.original)
    own = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(asked.original))
    return Rope(asked.plain / divisors, asked.optional("attention_factor", own))


_SCALINGS: Mapping[str, Callable[[_Asked], Rope]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}


def _incomplete(parameters: Config, key: str, why: object) -> UnsupportedArchitecture:
    kind = parameters.get("rope_type") or parameters.get("type")
    return UnsupportedArchitecture(
        f"config.json: rope scaling {str(kind)!r} lacks a figure, {key}: {why}", hint="copy config.json again"
    )
