"""Feed-forward blocks: a gated one, and a mixture of such experts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from llmservice_planner.dimensions import Experts
from llmservice_planner.shape import ModelShape
from torch import Tensor
from torch.nn import functional

from llmservice_engine.models.layers.linear import Maker, Part
from llmservice_engine.models.layers.traits import Traits
from llmservice_engine.ops.activation import GATED


class GatedFeed:
    """``down(activation(gate(x)) * up(x))``, gate and up as one product."""

    def __init__(
        self,
        names: tuple[str, str, str],
        hidden: int,
        intermediate: int,
        activation: str,
        make: Maker,
        *,
        bias: bool,
    ) -> None:
        """names: of gate, up and down in the checkpoint; gate and up may be one tensor there, of one name."""
        gate, up, down = names
        parts = (Part(gate, intermediate, "rows"), Part(up, intermediate, "rows"))
        self._gate_up = make.linear(parts, hidden, bias=bias)
        self._down = make.linear((Part(down, hidden, "columns"),), intermediate, bias=bias)
        self._gated = GATED[activation]

    @classmethod
    def of(cls, layer: str, shape: ModelShape, traits: Traits, make: Maker) -> GatedFeed:
        gate_up = ("gate_up_proj", "gate_up_proj") if traits.merged else ("gate_proj", "up_proj")
        names = (f"{layer}.mlp.{gate_up[0]}", f"{layer}.mlp.{gate_up[1]}", f"{layer}.mlp.down_proj")
        return cls(names, shape.hidden, shape.intermediate, traits.activation, make, bias=shape.feed_bias)

    def targets(self) -> Mapping[str, Tensor]:
        return {**self._gate_up.targets(), **self._down.targets()}

    def finish(self) -> None:
        self._gate_up.finish()
        self._down.finish()

    def __call__(self, x: Tensor) -> Tensor:
        return self._down(self._gated(self._gate_up(x)))


class MixtureFeed:
    """For each token the few experts that a router chooses, weighed."""

    def __init__(self, layer: str, shape: ModelShape, experts: Experts, traits: Traits, make: Maker) -> None:
        named = traits.experts
        self._active = experts.active
        self._renormalise = traits.renormalise
        self._router_name = f"{layer}.{named.block}.gate.weight"
        self._router = make.tensor(experts.count, shape.hidden)
        self._experts = [
            GatedFeed(
                (f"{name}.{named.gate}", f"{name}.{named.up}", f"{name}.{named.down}"),
                shape.hidden,
                experts.intermediate,
                traits.activation,
                make,
                bias=False,
            )
            for name in (f"{layer}.{named.block}.experts.{number}" for number in range(experts.count))
        ]

    def targets(self) -> Mapping[str, Tensor]:
        found = {self._router_name: self._router}
        for expert in self._experts:
            found.update(expert.targets())
        return found

    def finish(self) -> None:
        for expert in self._experts:
            expert.finish()

    def __call__(self, x: Tensor) -> Tensor:
        """Each expert that is chosen at all computes all of its tokens at once."""
        chances = functional.linear(x, self._router).softmax(-1, dtype=torch.float32)
        weights, chosen = chances.topk(self._active)  # [tokens, active]
        if self._renormalise:
            weights = weights / weights.sum(-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)  # by expert
        counts = chosen.flatten().bincount(minlength=len(self._experts)).tolist()
        tokens = torch.split(order // self._active, counts)  # an expert each
        shares = torch.split(weights.flatten()[order].unsqueeze(1).to(x.dtype), counts)
        out = torch.zeros_like(x)
        for expert, rows, share in zip(self._experts, tokens, shares, strict=True):
            if len(rows):
                out.index_add_(0, rows, expert(x[rows]).mul_(share))
        return out
