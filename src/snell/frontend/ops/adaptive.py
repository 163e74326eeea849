"""Adaptive pooling: windows chosen so that the result has given extents, whatever the extents of the image.

Position i of an axis of n elements that becomes m reads the elements ⌊i·n/m⌋ … ⌈(i+1)·n/m⌉ - 1, as in PyTorch: windows may
overlap, and their lengths differ by at most one where m does not divide n.  Element p is read by the windows
⌊p·m/n⌋ … ⌈(p+1)·m/n⌉ - 1, the same rule with n and m exchanged, so gradients are sums over such windows too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from snell.dtypes import bool_
from snell.errors import ShapeError
from snell.frontend.custom import custom_vjp
from snell.frontend.ops.comparison import equal, logical_and, maximum, where
from snell.frontend.ops.creation import full_like, ones
from snell.frontend.ops.elementwise import astype, divide, multiply, wide
from snell.frontend.ops.movement import reshape, unsqueeze
from snell.frontend.ops.reduction import max as max_of
from snell.frontend.ops.reduction import mean, raw_sum
from snell.frontend.promotion import as_tensor, promote_float
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
    result = _pooled(wide(tensor), size, mean, _means_along)
    return astype(result, tensor.dtype)


def adaptive_max_pool(x: TensorLike, size: AdaptiveSize) -> Tensor:
    """The greatest element of each adaptive window: (n, channels, *spatial) → (n, channels, *size).

    Raises ShapeError where a size is below 1, SymbolicError for an extent known at run time alone that no size divides.
    """
    return _pooled(as_tensor(x), size, max_of, _maxima_along)


def _pooled(
    x: Tensor,
    size: AdaptiveSize,
    reduce: Callable[[Tensor, Sequence[int]], Tensor],
    reduce_along: Callable[[Tensor, int, int], Tensor],
) -> Tensor:
    """Axes that come out even are split into equal windows and reduced at once, the others one after the other."""
    targets = _targets(x.shape, size)
    shape: list[Size] = [*x.shape[:2]]
    windows: list[int] = []
    uneven: list[tuple[int, int]] = []
    for axis, (extent, target) in enumerate(zip(x.shape[2:], targets, strict=True), start=2):
        elements = as_expr(extent) // as_expr(target)
        if elements * as_expr(target) != as_expr(extent):
            known_size(extent, "adaptive pooling")
            uneven.append((axis, known_size(target, "adaptive pooling")))
            shape.append(extent)
        elif elements == 1:
            shape.append(extent)
        else:
            windows.append(len(shape) + 1)
            shape += [target, as_size(elements)]
    result = reduce(reshape(x, shape), windows) if windows else x
    for axis, target in uneven:
        result = reduce_along(result, axis, target)
    return result


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


def _windows(x: Tensor, axis: int, target: int) -> Tensor:
    """The windows along an axis, in a last axis as long as the longest of them, zeros (false) behind shorter ones."""
    return x.seen_through(x.operand.view.then(_window_view(x.shape, axis, target)))


def _window_view(shape: Shape, axis: int, target: int) -> View:
    ratio = Fraction(known_size(shape[axis], "adaptive pooling"), target)
    elements, windows = ratio.numerator, ratio.denominator
    longest = max(-(-(k + 1) * elements // windows) - k * elements // windows for k in range(windows))
    seen = (*shape[:axis], target, *shape[axis + 1 :], longest)
    place = coordinates(seen)
    read = place[axis] * elements // windows + place[-1]
    end = ((place[axis] + 1) * elements + (windows - 1)) // windows
    indices: tuple[Expr, ...] = (*place[:axis], as_expr(read), *place[axis + 1 : -1])
    guard = as_expr(end - 1 - read)
    return View(seen, indices, () if guard.is_non_negative() else (guard,))


def _means_along(x: Tensor, axis: int, target: int) -> Tensor:
    extent = known_size(x.shape[axis], "adaptive pooling")

    def sums(values: Tensor) -> tuple[Tensor, tuple[()]]:
        return raw_sum(_windows(values, axis, target), -1), ()

    def pulled_back(_: tuple[()], cotangent: Tensor) -> tuple[Tensor]:
        return (raw_sum(_windows(cotangent, axis, extent), -1),)

    counts = raw_sum(_windows(ones((extent,), x.dtype), 0, target), -1)
    return divide(custom_vjp(sums, pulled_back)(x), reshape(counts, [target, *[1] * (x.ndim - axis - 1)]))


def _maxima_along(x: Tensor, axis: int, target: int) -> Tensor:
    extent = known_size(x.shape[axis], "adaptive pooling")
    inside = _windows(full_like(x, True, bool_), axis, target)

    def maxima(values: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        greatest = max_of(where(inside, _windows(values, axis, target), values.dtype.lowest), -1)
        return greatest, (values, greatest)

    def pulled_back(kept: tuple[Tensor, Tensor], cotangent: Tensor) -> tuple[Tensor]:
        # As for every maximum, elements that share it share its gradient.
        values, greatest = kept
        hits = logical_and(inside, equal(_windows(values, axis, target), unsqueeze(greatest, -1)))
        wide_cotangent = wide(cotangent)
        shares = divide(wide_cotangent, maximum(raw_sum(astype(hits, wide_cotangent.dtype), -1), 1))
        is_greatest = equal(unsqueeze(values, -1), _windows(greatest, axis, extent))
        found = raw_sum(multiply(is_greatest, _windows(shares, axis, extent)), -1)
        return (astype(found, cotangent.dtype),)

    return custom_vjp(maxima, pulled_back)(x) if x.dtype.is_float else maxima(x)[0]
