"""Attention and rotary positions, written naively: the compiler derives the streaming form."""

from __future__ import annotations

import math

from snell.dtypes import bool_
from snell.errors import DTypeError, ShapeError
from snell.frontend.custom import differentiated_as
from snell.frontend.ops.activation import softmax
from snell.frontend.ops.comparison import less, logical_not, where
from snell.frontend.ops.contraction import matmul
from snell.frontend.ops.creation import arange, iota, size_of
from snell.frontend.ops.elementwise import astype, cos, exp, multiply, sin, subtract, wide
from snell.frontend.ops.joining import concatenate, stack
from snell.frontend.ops.movement import reshape, unsqueeze
from snell.frontend.ops.reduction import max as max_of
from snell.frontend.promotion import as_tensor, lift, promote
from snell.frontend.shapes import SizeLike
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import as_expr, as_size, show_shape

__all__ = ["causal_mask", "rope", "rope_table", "scaled_dot_product_attention"]


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
) -> Tensor:
    """softmax(query·keyᵀ·scale)·value: (…, heads, queries, d), (…, key heads, keys, d), (…, key heads, keys, e)
    → (…, heads, queries, e).

    `mask` broadcasts to (…, heads, queries, keys): bool (True = may attend) or numbers added to the scores.  A row
    that may attend to nothing gives zeros.  `is_causal`: query i may attend to keys up to `query_offset` + i.  `heads`
    may be a multiple of the key heads (grouped heads share one).  `scale` defaults to 1/√d.  f16 and bf16 scores are
    computed in f32.  Raises ShapeError where heads, widths or lengths do not fit.
    """
    q, k, v = promote(query, key, value)
    groups = _groups(q, k, v)
    if groups != 1:
        q = reshape(q, [*q.shape[:-3], k.shape[-3], groups, *q.shape[-2:]])
        k, v = unsqueeze(k, -3), unsqueeze(v, -3)
    factor = _default_scale(q) if scale is None else scale
    scores = wide(matmul(q, k.mT)) * factor
    if mask is not None:
        scores = _masked(scores, _grouped_mask(as_tensor(mask), groups))
    if is_causal:
        causal = causal_mask(q.shape[-2], k.shape[-2], query_offset)
        scores = _masked(scores, causal if causal.ndim == 2 else _grouped_mask(causal, groups))
    weights = astype(softmax(scores, -1), v.dtype)
    result = matmul(weights, v)
    if mask is not None or is_causal:
        # A row of -inf has no softmax; the select makes it 0.  NaN scores are not below the least number, and stay.
        empty = less(max_of(scores, -1, keepdims=True), scores.dtype.range[0])
        # Selecting few results is cheaper than all weights; a gradient reads the weights and must not meet that NaN.
        selected = matmul(multiply(logical_not(empty), weights), v)
        result = differentiated_as(multiply(logical_not(empty), result), selected)
    if groups != 1:
        result = reshape(result, [*result.shape[:-4], as_size(as_expr(result.shape[-4]) * groups), *result.shape[-2:]])
    return result


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
