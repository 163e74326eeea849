"""Feed-forward layers: down(f(gate(x))·up(x)), of one set of weights or of the experts that a router chooses."""

from __future__ import annotations

from typing import assert_never

from snell.frontend.ops.activation import gelu, silu, softmax
from snell.frontend.ops.comparison import equal, less, logical_and, logical_or, where
from snell.frontend.ops.contraction import matmul
from snell.frontend.ops.creation import iota
from snell.frontend.ops.elementwise import astype, sigmoid
from snell.frontend.ops.joining import split
from snell.frontend.ops.reduction import raw_sum
from snell.frontend.tensor import Tensor
from snell.llm.families.attention import linear
from snell.llm.families.decoder import Decoder, Mixture
from snell.llm.families.description import Activation
from snell.llm.weights import Weights

__all__ = ["feed_forward"]


def feed_forward(decoder: Decoder, weights: Weights, layer: int, x: Tensor) -> Tensor:
    """f32 (tokens, d) → f32 (tokens, d)."""
    name = f"blk.{layer}.ffn_"
    if decoder.mixture is None or layer not in decoder.mixture.layers:
        return _dense(decoder, weights, name, "", x)
    mixed = _mixed(decoder, decoder.mixture, weights, name, x)
    if not decoder.mixture.shared:
        return mixed
    share = sigmoid(linear(x, weights[name + "gate_inp_shexp.weight"].reshape(1, decoder.width)))
    return mixed + share * _dense(decoder, weights, name, "_shexp", x)


def _dense(decoder: Decoder, weights: Weights, name: str, kind: str, x: Tensor) -> Tensor:
    def part(which: str, y: Tensor) -> Tensor:
        stem = f"{name}{which}{kind}"
        return linear(y, weights[stem + ".weight"], weights.optional(stem + ".bias"))

    if decoder.fused:
        gate, up = split(part("up", x), [decoder.inner, decoder.inner], -1)
    else:
        gate, up = part("gate", x), part("up", x)
    return part("down", _activated(decoder.activation, gate) * up)


def _mixed(decoder: Decoder, mixture: Mixture, weights: Weights, name: str, x: Tensor) -> Tensor:
    """The sum of the chosen experts' results by their scores; weights of other experts are not read."""
    scores, chosen = _best(softmax(linear(x, weights[name + "gate_inp.weight"])), mixture.chosen)
    if mixture.normalised:
        scores = scores / raw_sum(scores, -1).unsqueeze(-1)
    rows = x.unsqueeze(1).unsqueeze(-1)
    gate, up = (matmul(weights.rows(f"{name}{part}_exps.weight", chosen, mode="zero"), rows) for part in ("gate", "up"))
    inner = _activated(decoder.activation, gate) * up
    results = matmul(weights.rows(name + "down_exps.weight", chosen, mode="zero"), inner).squeeze(-1)
    return raw_sum(results * scores.unsqueeze(-1), 1)


def _best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The greatest scores of (tokens, experts) and their places, each (tokens, count), the first among equals first.

    A score's rank is the number of scores before it.  Experts are few, so comparing all pairs is cheaper than the steps
    of a selection, each of which waits for the one before.
    """
    experts = scores.shape[-1]
    place = iota(experts, "i32", trace=scores.trace)
    own, other = scores.unsqueeze(2), scores.unsqueeze(1)
    before = logical_or(less(own, other), logical_and(equal(own, other), less(place, place.unsqueeze(1))))
    rank = raw_sum(astype(before, "i32"), -1)
    chosen = equal(rank.unsqueeze(1), iota(count, "i32", trace=scores.trace).unsqueeze(1))
    return raw_sum(where(chosen, scores.unsqueeze(1), 0.0), -1), raw_sum(where(chosen, place, 0), -1)


def _activated(activation: Activation, gate: Tensor) -> Tensor:
    match activation:
        case Activation.SILU:
            return silu(gate)
        case Activation.GELU:
            return gelu(gate)
        case Activation.GELU_TANH:
            return gelu(gate, "tanh")
        case _:
            assert_never(activation)
