"""Interpolation: images of other extents, by the nearest element or by straight lines between elements.

Position i of the result stands at `ratio·i` of the image ("nearest"), at `ratio·(i + 1/2) - 1/2`, not below 0 ("linear"), or,
where corners are aligned, at `i·(n - 1)/(m - 1)` of n elements that become m.  The rules are PyTorch's; positions are exact
fractions here, floats there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from snell.dtypes import i64
from snell.errors import ShapeError, UnsupportedError
from snell.frontend.ops.comparison import less, where
from snell.frontend.ops.creation import iota, size_of
from snell.frontend.ops.division import floor_divide, modulo
from snell.frontend.ops.elementwise import astype, wide
from snell.frontend.ops.movement import reshape, zero_pad
from snell.frontend.promotion import as_tensor, promote_float
from snell.frontend.shapes import SizeLike, known_size
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import Size, View, as_expr, as_size, coordinates, show_shape

__all__ = ["interpolate"]

# A scale is a float; the fraction that was meant is the nearest one with a modest denominator.
_FINEST = 1 << 12


def interpolate(
    x: TensorLike,
    size: SizeLike | Sequence[SizeLike] | None = None,
    *,
    scale: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """(n, channels, *spatial) → (n, channels, *size), or the extents times `scale`, rounded down.

    `mode` is "nearest" or "linear" (over all spatial axes: bilinear on images, trilinear on volumes); `align_corners`
    lets the first and last elements keep their places.  f16 and bf16 are mixed in f32; integers become f32 where the mode
    is linear.  Raises ShapeError unless there is one of `size` and `scale`, of one number or one an axis, and of results
    with at least one element; UnsupportedError for another mode.
    """
    if mode not in ("nearest", "linear") or (align_corners and mode == "nearest"):
        raise UnsupportedError(
            f"interpolate expected mode 'nearest' or 'linear', align_corners with 'linear' alone; received {mode!r}"
            + (" and align_corners" if align_corners else "")
        )
    tensor = as_tensor(x)
    sizes, ratios = _targets(tensor, size, scale)
    if mode == "nearest":
        for k, (extent, ratio) in enumerate(zip(sizes, ratios, strict=True), start=2):
            tensor = _nearest(tensor, k, extent, ratio)
        return tensor
    (floating,) = promote_float(tensor)
    result = wide(floating)
    for k, (extent, ratio) in enumerate(zip(sizes, ratios, strict=True), start=2):
        result = _linear(result, k, extent, ratio, align_corners)
    return astype(result, floating.dtype)


def _targets(
    x: Tensor, size: SizeLike | Sequence[SizeLike] | None, scale: float | Sequence[float] | None
) -> tuple[list[Size], list[Fraction | None]]:
    """Extents of the result, and how far apart its positions lie in the image (None where an axis stays as it is)."""
    rank = x.ndim - 2
    given = size if scale is None else scale
    values = [*given] if isinstance(given, Sequence) else [given] * rank
    sound = rank >= 1 and (size is None) != (scale is None) and len(values) == rank and 0 not in x.shape[2:]
    if not sound:
        raise ShapeError(
            f"interpolate expected (n, channels, *spatial) of positive extents and either size or scale, 1 or "
            f"{max(rank, 1)} numbers; received {show_shape(x.shape)}, size {size} and scale {scale}"
        )
    if scale is not None:
        scales = [Fraction(value).limit_denominator(_FINEST) for value in values]  # type: ignore[arg-type]  # floats
        sizes = [_scaled(extent, one) for extent, one in zip(x.shape[2:], scales, strict=True)]
        return sizes, [None if one == 1 else 1 / one for one in scales]
    sizes = [as_size(value) for value in values]  # type: ignore[arg-type]  # sizes
    pairs = list(zip(x.shape[2:], sizes, strict=True))
    if any(isinstance(new, int) and new < 1 for _, new in pairs):
        raise ShapeError(f"interpolate expected sizes of at least 1, received {size}")
    return sizes, [None if old == new else _ratio(old, new) for old, new in pairs]


def _scaled(extent: Size, scale: Fraction) -> Size:
    size = as_size(as_expr(extent) * scale.numerator // scale.denominator) if scale > 0 else 0
    if isinstance(size, int) and size < 1:
        raise ShapeError(f"interpolate expected a scale that leaves an element of {extent}, received {float(scale)}")
    return size


def _ratio(old: Size, new: Size) -> Fraction:
    what = "interpolate to a size (a scale serves any extent)"
    return Fraction(known_size(old, what), known_size(new, what))


def _reading(x: Tensor, axis: int, extent: Size, step: int, start: int, divisor: int) -> Tensor:
    """x read at ⌊(step·i + start)/divisor⌋ along one axis."""
    shape = tuple(extent if k == axis else size for k, size in enumerate(x.shape))
    place = list(coordinates(shape))
    place[axis] = (place[axis] * step + start) // divisor
    return x.seen_through(x.operand.view.then(View(shape, tuple(place))))


def _nearest(x: Tensor, axis: int, extent: Size, ratio: Fraction | None) -> Tensor:
    if ratio is None:
        return x
    return _reading(x, axis, extent, ratio.numerator, 0, ratio.denominator)


def _linear(x: Tensor, axis: int, extent: Size, ratio: Fraction | None, align_corners: bool) -> Tensor:
    """Position i lies at (step·i + start)/divisor: a whole element, and a part of the way to the next."""
    old = x.shape[axis]
    if old == extent and (ratio is None or align_corners):
        return x
    if align_corners:
        last = known_size(old, "aligned corners") - 1
        places = Fraction(last, max(1, known_size(extent, "aligned corners") - 1))
        step, start, divisor = places.numerator, 0, places.denominator
    else:
        assert ratio is not None  # an axis that stays as it is was returned above
        step, start, divisor = 2 * ratio.numerator, ratio.numerator - ratio.denominator, 2 * ratio.denominator
        common = math.gcd(step, start, divisor)
        step, start, divisor = step // common, start // common, divisor // common
    # With a zero on each side both neighbours exist; where one of them is such a zero, all weight is on the other.
    padded = zero_pad(x, axis, 1, 1)
    place = iota(extent, i64, trace=x.trace) * step + (start + divisor)
    before = floor_divide(place, divisor)
    part = astype(modulo(place, divisor), x.dtype) / divisor
    part = where(less(before, 1), 1, where(less(before, size_of(old)), part, 0))
    part = reshape(part, [extent, *[1] * (x.ndim - axis - 1)])
    first = _reading(padded, axis, extent, step, start + divisor, divisor)
    second = _reading(padded, axis, extent, step, start + 2 * divisor, divisor)
    return first * (1 - part) + second * part
