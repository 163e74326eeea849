"""Adaptive pooling: windows chosen so that the result has given extents, whatever the extents of the image.

Position i of an axis of n elements that becomes m reads the elements ⌊i·n/m⌋ … ⌈(i+1)·n/m⌉ - 1, as in PyTorch: windows may
overlap, and their lengths differ by at most one where m does not divide n.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from snell.dtypes import bool_
from snell.errors import ShapeError
from snell.frontend.ops.comparison import where
from snell.frontend.ops.creation import full_like, ones
from snell.frontend.ops.elementwise import astype, divide, wide
from snell.frontend.ops.reduction import max as max_of
from snell.frontend.ops.reduction import mean, raw_sum
from snell.frontend.promotion import as_tensor, lift, promote_float
from snell.frontend.shapes import known_size
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import Expr, Shape, Size, View, as_expr, as_size, coordinates, show_shape

__all__ = ["AdaptiveSize", "adaptive_avg_pool", "adaptive_max_pool"]

AdaptiveSize = int | Sequence[int | None]
"""The extents of the result: one for all spatial axes, or one an axis, None where an axis keeps its own."""


def adaptive_avg_pool(x: TensorLike, size: AdaptiveSize) -> Tensor:
    """The mean of each adaptive window: (n, channels, *spatial) → (n, channels, *size).

    Raises ShapeError where a size is below 1, SymbolicError for an extent known at run time alone that no size divides.
    """
    (tensor,) = promote_float(x)
    values = wide(tensor)
    view, axes = _windows(tensor.shape, size)
    seen = values.seen_through(values.operand.view.then(view))
    if not view.guards:
        return astype(mean(seen, axes), tensor.dtype)
    _, whole = lift(values, ones(values.shape[2:], values.dtype))
    counted, counted_axes = _windows((1, 1, *values.shape[2:]), size)
    counts = whole.reshape(1, 1, *whole.shape)
    counts = raw_sum(counts.seen_through(counts.operand.view.then(counted)), counted_axes)
    return astype(divide(raw_sum(seen, axes), counts), tensor.dtype)


def adaptive_max_pool(x: TensorLike, size: AdaptiveSize) -> Tensor:
    """The greatest element of each adaptive window: (n, channels, *spatial) → (n, channels, *size).

    Raises ShapeError where a size is below 1, SymbolicError for an extent known at run time alone that no size divides.
    """
    tensor = as_tensor(x)
    view, axes = _windows(tensor.shape, size)
    seen = tensor.seen_through(tensor.operand.view.then(view))
    if view.guards:
        inside = full_like(tensor, True, bool_)
        seen = where(inside.seen_through(inside.operand.view.then(view)), seen, tensor.dtype.lowest)
    return max_of(seen, axes)


def _windows(shape: Shape, size: AdaptiveSize) -> tuple[View, range]:
    """(n, c, *positions, *window) of an image, guarded where a window is shorter than the longest; the window's axes."""
    rank = len(shape) - 2
    targets = _targets(shape, size)
    ratios = [_ratio(extent, target) for extent, target in zip(shape[2:], targets, strict=True)]
    lengths = [_longest(elements, windows) for elements, windows in ratios]
    seen: Shape = (*shape[:2], *targets, *lengths)
    place = coordinates(seen)
    indices = [*place[:2]]
    guards: list[Expr] = []
    for k, (elements, windows) in enumerate(ratios):
        first = place[2 + k] * elements // windows
        end = ((place[2 + k] + 1) * elements + (windows - 1)) // windows
        indices.append(first + place[2 + rank + k])
        if windows != 1 and lengths[k] != 1:
            guards.append(end - 1 - indices[-1])
    return View(seen, tuple(indices), tuple(guards)), range(2 + rank, 2 + 2 * rank)


def _targets(shape: Shape, size: AdaptiveSize) -> list[Size]:
    rank = len(shape) - 2
    given = [size] * rank if isinstance(size, int) else list(size)
    targets = [extent if one is None else one for one, extent in zip(given, shape[2:], strict=False)]
    sound = rank >= 1 and len(given) == rank and all(one is None or one >= 1 for one in given)
    if not sound or 0 in shape[2:]:
        raise ShapeError(
            f"adaptive pooling expected (n, channels, *spatial) of positive extents and 1 or {max(rank, 1)} sizes of at "
            f"least 1 (None keeps an extent), received {show_shape(shape)} and {size}"
        )
    return targets


def _ratio(extent: Size, target: Size) -> tuple[Expr, int]:
    """Elements and windows that repeat along an axis, in lowest terms."""
    quotient = as_expr(extent) // as_expr(target)
    if quotient * as_expr(target) == as_expr(extent):
        return quotient, 1
    ratio = Fraction(known_size(extent, "adaptive pooling"), known_size(target, "adaptive pooling"))
    return as_expr(ratio.numerator), ratio.denominator


def _longest(elements: Expr, windows: int) -> Size:
    """The greatest number of elements of a window."""
    if windows == 1:
        return as_size(elements)
    count = elements.constant
    return max(-(-(k + 1) * count // windows) - k * count // windows for k in range(windows))
