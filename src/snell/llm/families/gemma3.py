"""Gemma 3, text only: https://arxiv.org/abs/2503.19786.

Token embeddings are scaled by √d.  A layer normalises before and after each half: x + norm(attention(norm(x))), then
x + norm(down(gelu(gate(y))·up(y))) with y = norm(x).  Queries and keys are normalised per head.  Five of six layers
attend a sliding window with rotary base 10,000, the sixth all positions with the model's base.  GGUF files hold the
norms' weights with the 1 already added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from snell.deferred import deferred
from snell.errors import UnsupportedError
from snell.importers.gguf import GGUFFile
from snell.llm.families.decoder import DecoderSizes
from snell.llm.families.rotary import Pairing, Rotary, rotated
from snell.llm.hyperparameters import Hyperparameters, gguf_hyperparameters

if TYPE_CHECKING:
    from snell.frontend.ops import activation, normalisation
    from snell.frontend.tensor import Tensor
    from snell.llm.families import attention
    from snell.llm.traced_cache import StepCache
    from snell.llm.weights import Weights
else:
    activation = deferred("snell.frontend.ops.activation")
    normalisation = deferred("snell.frontend.ops.normalisation")
    attention = deferred("snell.llm.families.attention")

__all__ = ["Gemma3", "gemma3_from_config", "gemma3_from_gguf"]

_LOCAL_BASE = 10000.0
_PATTERN = 6
Tables = tuple["Tensor", "Tensor"]


@dataclass(frozen=True, slots=True)
class Gemma3:
    """``width`` is d; every ``pattern``-th layer is global, the others see ``window`` positions."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    context: int
    vocabulary: int
    epsilon: float
    window: int
    pattern: int
    global_rotary: Rotary
    local_rotary: Rotary

    @property
    def sizes(self) -> DecoderSizes:
        """The sizes generation depends on."""
        return DecoderSizes(self.layers, self.kv_heads, self.head_dim, self.context, self.vocabulary)

    def hidden(self, weights: Weights, tokens: Tensor, cache: StepCache) -> Tensor:
        """i32 (tokens,) → normalised hidden states f32 (tokens, d)."""
        x = weights.rows("token_embd.weight", tokens) * math.sqrt(self.width)
        for layer in range(self.layers):
            name = f"blk.{layer}."
            y = self._attention(weights, layer, self._norm(weights, name + "attn_norm", x), cache)
            x = x + self._norm(weights, name + "post_attention_norm", y)
            y = _feed_forward(weights, name, self._norm(weights, name + "ffn_norm", x))
            x = x + self._norm(weights, name + "post_ffw_norm", y)
        return self._norm(weights, "output_norm", x)

    def logits(self, weights: Weights, hidden: Tensor) -> Tensor:
        """f32 (n, d) → f32 (n, vocabulary)."""
        return attention.linear(hidden, weights["output.weight" if "output.weight" in weights else "token_embd.weight"])

    def _norm(self, weights: Weights, name: str, x: Tensor) -> Tensor:
        return normalisation.rms_norm(x, weights[name + ".weight"], epsilon=self.epsilon)

    def _attention(self, weights: Weights, layer: int, x: Tensor, cache: StepCache) -> Tensor:
        name = f"blk.{layer}.attn_"
        queries, keys, values = (
            attention.split_heads(attention.linear(x, weights[f"{name}{part}.weight"]), heads)
            for part, heads in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads))
        )
        whole = (layer + 1) % self.pattern == 0
        rotary = self.global_rotary if whole else self.local_rotary
        tables = _tables(weights, "global" if whole else "local", rotary, cache)
        queries = rotated(self._norm(weights, name + "q_norm", queries), rotary, *tables)
        keys = rotated(self._norm(weights, name + "k_norm", keys), rotary, *tables)
        attend = partial(attention.causal_attention, window=0 if whole else self.window)
        attended = cache.attended(layer, queries, keys, values, attend)
        joined = attended.permute(1, 0, 2).reshape(x.shape[0], self.heads * self.head_dim)
        return attention.linear(joined, weights[name + "output.weight"])


def _tables(weights: Weights, name: str, rotary: Rotary, cache: StepCache) -> Tables:
    """The rotary tables' rows for the step's tokens."""
    same, swapped = rotary.tables(cache.shape.capacity)
    rows = (weights.constant(f"rotary.{name}.same", same), weights.constant(f"rotary.{name}.swapped", swapped))
    first, second = (cache.rows_of(table) for table in rows)
    return first, second


def _feed_forward(weights: Weights, name: str, x: Tensor) -> Tensor:
    gate, up = (attention.linear(x, weights[f"{name}ffn_{part}.weight"]) for part in ("gate", "up"))
    return attention.linear(activation.gelu(gate, "tanh") * up, weights[name + "ffn_down.weight"])


def gemma3_from_gguf(file: GGUFFile) -> Gemma3:
    """The hyperparameters in a GGUF file's metadata."""
    keys = gguf_hyperparameters(file)
    head_dim = keys.integer("attention.key_length", 256)
    if keys.integer("attention.value_length", head_dim) != head_dim:
        raise UnsupportedError(f"{keys.where}: keys and values of different lengths")
    if keys.number("final_logit_softcapping", 0.0) or keys.number("attn_logit_softcapping", 0.0):
        raise UnsupportedError(f"{keys.where}: soft-capped logits")
    scaling = keys.text("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise UnsupportedError(f"{keys.where}: rope.scaling.type {scaling!r}; supported are none and linear")
    divisors = (keys.number("rope.scaling.factor"),) * (head_dim // 2) if scaling == "linear" else ()
    base = keys.number("rope.freq_base", 1e6)
    return Gemma3(
        layers=keys.integer("block_count"),
        heads=keys.integer("attention.head_count"),
        kv_heads=keys.integer("attention.head_count_kv"),
        head_dim=head_dim,
        width=keys.integer("embedding_length"),
        context=keys.integer("context_length"),
        vocabulary=file.tensors["token_embd.weight"].shape[0] if "token_embd.weight" in file.tensors else 0,
        epsilon=keys.number("attention.layer_norm_rms_epsilon"),
        window=keys.integer("attention.sliding_window"),
        pattern=keys.integer("attention.sliding_window_pattern", _PATTERN),
        global_rotary=Rotary(head_dim, base, Pairing.HALVES, divisors),
        local_rotary=Rotary(head_dim, keys.number("rope.freq_base_swa", _LOCAL_BASE), Pairing.HALVES),
    )


def gemma3_from_config(config: Hyperparameters) -> Gemma3:
    """Not yet: folders hold the norms' weights without the 1."""
    raise UnsupportedError(f"{config.where}: Gemma 3 is opened from GGUF files only; convert the folder first")
