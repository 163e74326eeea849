"""One step of a decoder: tokens behind those in the cache → hidden states → logits.

A layer: x + attention(norm(x)), then x + feed_forward(norm(x)), with a further norm behind each half where the family
has one.  Attention has grouped key-value heads and rotary positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from snell.frontend.ops.elementwise import tanh
from snell.frontend.ops.joining import split
from snell.frontend.ops.normalisation import rms_norm
from snell.frontend.tensor import Tensor
from snell.llm.families.attention import causal_attention, linear, split_heads
from snell.llm.families.decoder import Decoder
from snell.llm.families.feed_forward import feed_forward
from snell.llm.families.rotary import Rotary, rotated, turns_at
from snell.llm.traced_cache import StepCache
from snell.llm.weights import Weights

__all__ = ["hidden_states", "logits"]

Tables = tuple[Tensor, Tensor]


def hidden_states(decoder: Decoder, weights: Weights, tokens: Tensor, cache: StepCache) -> Tensor:
    """i32 (tokens,), whose positions the cache knows → normalised hidden states f32 (tokens, d)."""
    x = weights.rows("token_embd.weight", tokens)
    if decoder.embedding_scale != 1:
        x = x * decoder.embedding_scale
    tables = {rotary: _tables(weights, name, rotary, cache) for rotary, name in decoder.rotaries.items()}
    for layer in range(decoder.layers):
        name = f"blk.{layer}."
        y = _attention(decoder, weights, layer, _norm(decoder, weights, name + "attn_norm", x), cache, tables)
        if decoder.output_norms:
            y = _norm(decoder, weights, name + "post_attention_norm", y)
        x = x + y
        y = feed_forward(decoder, weights, layer, _norm(decoder, weights, name + "ffn_norm", x))
        if decoder.output_norms:
            y = _norm(decoder, weights, name + "post_ffw_norm", y)
        x = x + y
    return _norm(decoder, weights, "output_norm", x)


def logits(decoder: Decoder, weights: Weights, hidden: Tensor) -> Tensor:
    """f32 (n, d) → f32 (n, vocabulary)."""
    scores = linear(hidden, weights["token_embd.weight" if decoder.tied else "output.weight"])
    return tanh(scores / decoder.logit_cap) * decoder.logit_cap if decoder.logit_cap else scores


def _norm(decoder: Decoder, weights: Weights, name: str, x: Tensor) -> Tensor:
    return rms_norm(x, weights[name + ".weight"], epsilon=decoder.epsilon)


def _attention(
    decoder: Decoder, weights: Weights, layer: int, x: Tensor, cache: StepCache, tables: Mapping[Rotary, Tables]
) -> Tensor:
    name = f"blk.{layer}.attn_"
    queries, keys, values = _projections(decoder, weights, name, x)
    if decoder.head_norms:
        queries = _norm(decoder, weights, name + "q_norm", queries)
        keys = _norm(decoder, weights, name + "k_norm", keys)
    rotary = decoder.rotary_of(layer)
    queries, keys = (rotated(x, rotary, *tables[rotary]) for x in (queries, keys))
    attend = partial(causal_attention, scale=decoder.score_scale, cap=decoder.score_cap, window=decoder.windows[layer])
    attended = cache.attended(layer, queries, keys, values, attend)
    joined = attended.permute(1, 0, 2).reshape(x.shape[0], decoder.heads * decoder.head_dim)
    return linear(joined, weights[name + "output.weight"], weights.optional(name + "output.bias"))


def _projections(decoder: Decoder, weights: Weights, name: str, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, each (its heads, tokens, head_dim)."""
    heads = (decoder.heads, decoder.kv_heads, decoder.kv_heads)
    if decoder.fused:
        whole = linear(x, weights[name + "qkv.weight"], weights.optional(name + "qkv.bias"))
        parts = split(whole, [count * decoder.head_dim for count in heads], -1)
    else:
        parts = tuple(
            linear(x, weights[f"{name}{part}.weight"], weights.optional(f"{name}{part}.bias"))
            for part in ("q", "k", "v")
        )
    queries, keys, values = (split_heads(part, count) for part, count in zip(parts, heads, strict=True))
    return queries, keys, values


def _tables(weights: Weights, name: str, rotary: Rotary, cache: StepCache) -> Tables:
    """What the step's tokens are turned by."""
    tables = rotary.tables(cache.shape.capacity)
    constants = {key: weights.constant(f"{name}.{key}", table) for key, table in tables.items()}
    return turns_at(cache.positions(), constants)
