"""Attention and rotary positions, written naively: the compiler derives the streaming form."""

from __future__ import annotations

import math

from snell.dtypes import bool_
from snell.errors import ConfigError, DTypeError, ShapeError
from snell.frontend.custom import differentiated_as
from snell.frontend.ops.activation import softmax
from snell.frontend.ops.comparison import less, logical_not, where
from snell.frontend.ops.contraction import matmul
from snell.frontend.ops.creation import arange, iota, size_of
from snell.frontend.ops.elementwise import astype, cos, exp, multiply, sin, subtract, wide
from snell.frontend.ops.joining import concatenate, stack
from snell.frontend.ops.movement import reshape, unsqueeze
from snell.frontend.ops.random import bernoulli
from snell.frontend.ops.reduction import max as max_of
from snell.frontend.promotion import as_tensor, lift, promote
from snell.frontend.shapes import SizeLike
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import as_expr, as_size, show_shape

__all__ = ["attention_weights", "causal_mask", "rope", "rope_table", "scaled_dot_product_attention"]


def causal_mask(queries: SizeLike, keys: SizeLike, offset: SizeLike | Tensor = 0) -> Tensor:
    """bool (queries, keys): query i may attend to key j where j <= offset + i.

    An integer tensor of offsets (batch,) gives (batch, 1, queries, keys).
    """
    query, key = unsqueeze(iota(queries), 1), iota(keys)
    if not isinstance(offset, Tensor):
        return logical_not(less(query + size_of(offset), key))
    starts = reshape(offset, [*offset.shape, *[1] * (3 if offset.ndim else 0)])
    return logical_not(less(query + starts, key))


def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    mask: TensorLike | None = None,
    *,
    is_causal: bool = False,
    query_offset: SizeLike | Tensor = 0,
    scale: float | None = None,
    dropout: float = 0.0,
    dropout_key: TensorLike | None = None,
) -> Tensor:
    """softmax(query·keyᵀ·scale)·value: (…, heads, queries, d), (…, key heads, keys, d), (…, key heads, keys, e)
    → (…, heads, queries, e).

    `mask` broadcasts to (…, heads, queries, keys): bool (True = may attend) or numbers added to the scores.  A row
    that may attend to nothing gives zeros.  `is_causal`: query i may attend to keys up to `query_offset` + i.  `heads`
    may be a multiple of the key heads (grouped heads share one).  `scale` defaults to 1/√d.  f16 and bf16 scores are
    computed in f32.  With `dropout` p each weight is 0 with probability p, drawn from `dropout_key`, and those that stay
    are divided by 1 - p.  Raises ShapeError where heads, widths or lengths do not fit.
    """
    q, k, v = promote(query, key, value)
    groups = _groups(q, k, v)
    q, k = _grouped(q, k, groups)
    scores = _scores(q, k, mask, groups, is_causal, query_offset, scale)
    weights = astype(softmax(scores, -1), v.dtype)
    if dropout:
        weights = _dropped(weights, dropout, dropout_key)
    v = v if groups == 1 else unsqueeze(v, -3)
    result = matmul(weights, v)
    if mask is not None or is_causal:
        # Selecting few results is cheaper than all weights; a gradient reads the weights and must not meet that NaN.
        attends = _attends(scores)
        selected = matmul(multiply(attends, weights), v)
        result = differentiated_as(multiply(attends, result), selected)
    return _ungrouped(result, groups)


def attention_weights(
    query: TensorLike,
    key: TensorLike,
    mask: TensorLike | None = None,
    *,
    is_causal: bool = False,
    query_offset: SizeLike | Tensor = 0,
    scale: float | None = None,
) -> Tensor:
    """softmax(query·keyᵀ·scale): (…, heads, queries, d) and (…, key heads, keys, d) → (…, heads, queries, keys).

    What `scaled_dot_product_attention` multiplies the values with, under the same mask; it needs memory for all pairs.  A
    row that may attend to nothing is zeros.  Raises ShapeError where heads or widths do not fit.
    """
    q, k = promote(query, key)
    groups = _groups(q, k, k)
    q, k = _grouped(q, k, groups)
    scores = _scores(q, k, mask, groups, is_causal, query_offset, scale)
    weights = softmax(scores, -1)
    if mask is not None or is_causal:
        weights = multiply(_attends(scores), weights)
    return astype(_ungrouped(weights, groups), q.dtype)


def _grouped(q: Tensor, k: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """(…, key heads, groups, queries, d) beside (…, key heads, 1, keys, d), where heads share keys."""
    if groups == 1:
        return q, k
    return reshape(q, [*q.shape[:-3], k.shape[-3], groups, *q.shape[-2:]]), unsqueeze(k, -3)


def _ungrouped(x: Tensor, groups: int) -> Tensor:
    """(…, key heads, groups, queries, n) → (…, heads, queries, n)."""
    if groups == 1:
        return x
    return reshape(x, [*x.shape[:-4], as_size(as_expr(x.shape[-4]) * groups), *x.shape[-2:]])


def _scores(
    q: Tensor,
    k: Tensor,
    mask: TensorLike | None,
    groups: int,
    is_causal: bool,
    query_offset: SizeLike | Tensor,
    scale: float | None,
) -> Tensor:
    """Scores before the softmax, -inf where a query may not attend."""
    factor = _default_scale(q) if scale is None else scale
    scores = wide(matmul(q, k.mT)) * factor
    if mask is not None:
        scores = _masked(scores, _grouped_mask(as_tensor(mask), groups))
    if is_causal:
        causal = causal_mask(q.shape[-2], k.shape[-2], query_offset)
        scores = _masked(scores, causal if causal.ndim == 2 else _grouped_mask(causal, groups))
    return scores


def _attends(scores: Tensor) -> Tensor:
    """False for a row of -inf, which has no softmax.  NaN scores are not below the least number, and stay."""
    return logical_not(less(max_of(scores, -1, keepdims=True), scores.dtype.range[0]))


def _dropped(weights: Tensor, probability: float, key: TensorLike | None) -> Tensor:
    if not 0 < probability <= 1 or key is None:
        raise ConfigError(
            f"attention's dropout expected a probability from 0 to 1 and a dropout_key to draw from; "
            f"received {probability} and {'no key' if key is None else 'a key'}"
        )
    kept = bernoulli(key, 1 - probability, weights.shape)
    return multiply(kept, weights) * (1 / (1 - probability) if probability < 1 else 1.0)


def _groups(q: Tensor, k: Tensor, v: Tensor) -> int:
    """Query heads a key head; 1 where there are no heads."""
    if not q.dtype.is_float:
        raise DTypeError(f"scaled_dot_product_attention expected floats, received {q.dtype}")
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        shown = ", ".join(show_shape(t.shape) for t in (q, k, v))
        raise ShapeError(
            f"scaled_dot_product_attention expected query (…, q, d), key (…, k, d), value (…, k, e), received {shown}"
        )
    if q.ndim < 3 or k.ndim < 3 or q.shape[-3] == k.shape[-3] or k.shape[-3] == 1:
        return 1
    heads, shared = as_expr(q.shape[-3]), as_expr(k.shape[-3])
    groups = heads // shared
    if groups * shared != heads or not groups.is_constant:
        raise ShapeError(
            f"scaled_dot_product_attention expected a multiple of the {shared} key heads, received {heads} query heads"
        )
    return groups.constant


def _default_scale(q: Tensor) -> float | Tensor:
    width = q.shape[-1]
    return 1 / math.sqrt(width) if isinstance(width, int) else astype(size_of(width), wide(q).dtype) ** -0.5


def _grouped_mask(mask: Tensor, groups: int) -> Tensor:
    """A mask over (…, heads, queries, keys) beside scores (…, key heads, groups, queries, keys)."""
    if groups == 1 or mask.ndim < 3:
        return mask
    if mask.shape[-3] == 1:
        return unsqueeze(mask, -3)
    shared = as_size(as_expr(mask.shape[-3]) // groups)
    return reshape(mask, [*mask.shape[:-3], shared, groups, *mask.shape[-2:]])


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype == bool_:
        return where(mask, scores, -math.inf)
    return scores + astype(mask, scores.dtype)


def rope_table(
    positions: TensorLike, width: int, base: float = 10000.0, frequencies: TensorLike | None = None
) -> tuple[Tensor, Tensor]:
    """cos and sin (*positions.shape, width/2), f32, of position·base^(-2i/width) or position·frequencies (width/2,)."""
    places = astype(as_tensor(positions), "f32")
    if frequencies is None:
        exponents = astype(arange(width // 2), "f32") * (-2.0 * math.log(base) / width)
        frequencies = exp(exponents)
    angles = multiply(unsqueeze(places, -1), frequencies)
    return cos(angles), sin(angles)


def rope(x: TensorLike, cosines: TensorLike, sines: TensorLike, *, interleaved: bool = False) -> Tensor:
    """Rotate pairs of the last axis of (…, seq, d) by angles (…, seq, d/2) (see `rope_table`).

    Pairs are (i, i + d/2) as in Hugging Face's models, or (2i, 2i+1) where `interleaved`.  Only the first 2·(d/2 of the
    table) elements are rotated; the rest passes through.
    """
    tensor, c, s = lift(x, cosines, sines)
    half = c.shape[-1]
    rotated = as_size(as_expr(half) * 2)
    body, rest = tensor[..., :rotated], tensor[..., rotated:]
    values = wide(body)
    if interleaved:
        pairs = reshape(values, [*values.shape[:-1], half, 2])
        first, second = pairs[..., 0], pairs[..., 1]
    else:
        first, second = values[..., :half], values[..., half:]
    turned = (subtract(first * c, second * s), second * c + first * s)
    joined = reshape(stack(turned, -1), values.shape) if interleaved else concatenate(turned, -1)
    result = astype(joined, tensor.dtype)
    return result if rest.shape[-1] == 0 else concatenate([result, rest], -1)
