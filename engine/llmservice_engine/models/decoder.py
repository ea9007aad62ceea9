"""The decoder that every family here is: an embedding, layers of attention and feed-forward, a norm, a head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import torch
from llmservice_planner.shape import ModelShape
from torch import Tensor
from torch.nn import functional

from llmservice_engine.models.layers.attention import Attention
from llmservice_engine.models.layers.feed import GatedFeed, MixtureFeed
from llmservice_engine.models.layers.linear import Maker, Part
from llmservice_engine.models.layers.norm import RmsNorm
from llmservice_engine.models.layers.traits import Traits
from llmservice_engine.models.rope import Rope
from llmservice_engine.ops import rope
from llmservice_engine.ops.activation import soft_cap
from llmservice_engine.ops.attention.interface import LayerAttention, StepAttention


class _Weights(Protocol):
    def targets(self) -> Mapping[str, Tensor]: ...

    def finish(self) -> None: ...


class Transformer:
    """See the module. What one family does in its own way is in its ``Traits``."""

    def __init__(self, shape: ModelShape, traits: Traits, make: Maker) -> None:
        self._traits = traits
        self._tied = shape.tied_embeddings
        self._make = make
        self._rotations = _tables(traits.ropes, shape.context, make)
        self._embedding = make.tensor(shape.vocabulary, shape.hidden)
        # Rounded to the model's type, as training had it.
        self._embedding_scale = torch.tensor(traits.embedding_scale, dtype=make.dtype).item()
        self._layers = [_Layer(number, shape, traits, make) for number in range(shape.layers)]
        self._norm = RmsNorm(f"{traits.prefix}.norm", shape.hidden, traits, make)
        head = Part(traits.head, shape.vocabulary, "vocabulary")
        self._head = make.tied(self._embedding) if self._tied else make.linear((head,), shape.hidden)

    @property
    def attention(self) -> Sequence[LayerAttention]:
        """What each layer asks of the attention operation."""
        return self._traits.attention

    def targets(self) -> Mapping[str, Tensor]:
        found = {f"{self._traits.prefix}.embed_tokens.weight": self._embedding}
        for part in self._parts():
            found.update(part.targets())
        return found

    def unused(self, name: str) -> bool:
        """Old checkpoints carry the rotary frequencies, tied ones may carry the head once more, some see."""
        if self._make.unused(name) or (self._tied and name == f"{self._traits.head}.weight"):
            return True
        return name.endswith("rotary_emb.inv_freq") or name.startswith(self._traits.passed_over)

    def finish(self) -> None:
        for part in self._parts():
            part.finish()

    def forward(self, token_ids: Tensor, positions: Tensor, attention: StepAttention) -> Tensor:
        rotations = {one: table[positions] for one, table in self._rotations.items()}
        residual = functional.embedding(token_ids, self._embedding)
        if self._embedding_scale != 1:
            residual *= self._embedding_scale
        scale = self._traits.residual_scale
        first = self._layers[0].before_attention
        x = residual if first is None else first(residual)
        followers = [layer.before_attention for layer in self._layers[1:]] + [self._norm]
        for layer, own, follower in zip(self._layers, self._traits.ropes, followers, strict=True):
            turned = None if own is None else rotations[own]
            x = layer.attention(x, turned, attention)
            x, residual = _join(x, residual, layer.after_attention, layer.before_feed, scale)
            x, residual = _join(layer.feed(x), residual, layer.after_feed, follower, scale)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        logits = self._head(hidden)
        if self._traits.logit_scale != 1:
            logits *= self._traits.logit_scale
        return logits if self._traits.logit_cap is None else soft_cap(logits, self._traits.logit_cap)

    def _parts(self) -> Iterable[_Weights]:
        for layer in self._layers:
            yield from layer.parts()
        yield self._norm
        yield self._head


class _Layer:
    def __init__(self, number: int, shape: ModelShape, traits: Traits, make: Maker) -> None:
        name = f"{traits.prefix}.layers.{number}"

        def norm(own: str | None) -> RmsNorm | None:
            return None if own is None else RmsNorm(f"{name}.{own}", shape.hidden, traits, make)

        self.before_attention = norm(traits.norms.before_attention)
        self.attention = Attention(number, f"{name}.self_attn", shape, traits, make)
        self.after_attention = norm(traits.norms.after_attention)
        self.before_feed = norm(traits.norms.before_feed)
        self.feed: GatedFeed | MixtureFeed
        if shape.experts is not None and number in shape.experts.layers:
            self.feed = MixtureFeed(name, shape, shape.experts, traits, make)
        else:
            self.feed = GatedFeed.of(name, shape, traits, make)
        self.after_feed = norm(traits.norms.after_feed)

    def parts(self) -> Iterable[_Weights]:
        norms = (self.before_attention, self.after_attention, self.before_feed, self.after_feed)
        yield from (norm for norm in norms if norm is not None)
        yield self.attention
        yield self.feed


def _join(
    x: Tensor, residual: Tensor, after: RmsNorm | None, before: RmsNorm | None, scale: float
) -> tuple[Tensor, Tensor]:
    """What a block gave, normed ``after`` it, joins the residual. Returns the next block's input and the residual."""
    if after is not None:
        x = after(x)
    if before is not None:
        return before.add(x, residual, scale)
    residual = torch.add(residual, x, alpha=scale, out=residual)
    return residual, residual


def _tables(ropes: Sequence[Rope | None], positions: int, make: Maker) -> dict[Rope, Tensor]:
    """Layers that turn alike share one table."""
    found: dict[Rope, Tensor] = {}
    for one in ropes:
        if one is not None and one not in found:
            found[one] = rope.table(one.frequencies, positions, make.dtype, one.magnitude).to(make.device)
    return found
