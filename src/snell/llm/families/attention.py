"""Attention of the families: causal over a cache for decoders, masked by padding for encoders.

Both are written out, as the definition reads; the compiler finds the streaming form.
"""

import math

from snell.frontend.ops.activation import softmax
from snell.frontend.ops.comparison import less, less_equal, logical_and, where
from snell.frontend.ops.contraction import matmul
from snell.frontend.ops.creation import iota, size_of
from snell.frontend.ops.elementwise import tanh
from snell.frontend.tensor import Tensor
from snell.symbolic import Dim

__all__ = ["causal_attention", "linear", "masked_attention", "split_heads"]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (…, in) by a weight (out, in), plus bias (out,): (…, out)."""
    y = matmul(x, weight.T)
    return y if bias is None else y + bias


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(…, tokens, heads·head_dim) → (…, heads, tokens, head_dim)."""
    width = x.shape[-1]
    assert isinstance(width, int)  # only numbers of tokens and texts are symbolic
    rank = x.ndim
    parts = x.reshape(*x.shape[:-1], heads, width // heads)
    return parts.permute(*range(rank - 2), rank - 1, rank - 2, rank)


def causal_attention(
    queries: Tensor, keys: Tensor, values: Tensor, past: Dim, *, scale: float, cap: float = 0.0, window: int = 0
) -> Tensor:
    """(heads, tokens, head_dim) by keys and values (kv_heads, past + tokens, head_dim) → (heads, tokens, head_dim).

    Head h reads the keys of head h // (heads / kv_heads).  A token attends itself and what is before it, no further
    back than the last ``window`` positions (0: all of them).  A ``cap`` c (0: none) makes a score s to c·tanh(s / c).
    """
    heads, tokens, width = queries.shape
    kv_heads, positions, _ = keys.shape
    assert isinstance(heads, int)  # as in split_heads
    assert isinstance(kv_heads, int)
    assert isinstance(width, int)
    grouped = queries.reshape(kv_heads, heads // kv_heads, tokens, width)
    scores = matmul(grouped, keys.unsqueeze(1).mT) * scale
    if cap:
        scores = tanh(scores / cap) * cap
    trace = queries.trace
    query = (iota(tokens, trace=trace) + size_of(past)).unsqueeze(1)
    key = iota(positions, trace=trace)
    allowed = less_equal(key, query)
    if window:
        allowed = logical_and(allowed, less(query, key + window))
    attended = matmul(softmax(where(allowed, scores, -math.inf), axis=-1), values.unsqueeze(1))
    return attended.reshape(heads, tokens, width)


def masked_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """All (texts, heads, tokens, head_dim); mask bool (texts, tokens) is true at the tokens that may be attended."""
    width = queries.shape[-1]
    assert isinstance(width, int)  # as in split_heads
    scores = matmul(queries, keys.mT) * (1 / math.sqrt(width))
    allowed = mask.unsqueeze(1).unsqueeze(1)
    return matmul(softmax(where(allowed, scores, -math.inf), axis=-1), values)
