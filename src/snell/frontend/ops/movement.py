"""Movement: every function here only composes the operand's view; nothing is computed or copied."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from snell.errors import ShapeError
from snell.frontend.promotion import as_tensor, broadcast, broadcast_shape, expanded, lift
from snell.frontend.shapes import AxisLike, ShapeLike, SizeLike, flat_arguments, normal_axes, normal_axis, resolve_shape
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import Shape, Size, View, as_expr, as_size, coordinates, product, show_shape

__all__ = [
    "broadcast_tensors", "broadcast_to", "crop", "diagonal", "expand", "flatten", "flip", "movedim", "permute",
    "repeat", "reshape", "roll", "squeeze", "tile", "transpose", "unflatten", "unsqueeze", "window", "zero_pad",
]  # fmt: skip


def reshape(x: TensorLike, *shape: ShapeLike) -> Tensor:
    """The elements in row-major order in another shape; one size may be -1.

    Raises ShapeError where the numbers of elements differ, SymbolicError where their equality cannot be proved.
    """
    tensor = as_tensor(x)
    return tensor.seen_through(_reshaped(tensor.operand.view, resolve_shape(tensor.shape, flat_arguments(shape))))


@functools.lru_cache(maxsize=1 << 14)
def _reshaped(view: View, shape: Shape) -> View:
    """Equal layers ask for equal views, and proving a symbolic reshape takes a millisecond."""
    return view.reshape(shape)


def permute(x: TensorLike, *axes: int | Sequence[int]) -> Tensor:
    """Axis k of the result is axis `axes[k]` of x."""
    tensor = as_tensor(x)
    order = [normal_axis(int(axis), tensor.ndim) for axis in flat_arguments(axes)]  # type: ignore[arg-type]  # sizes are axes here
    return tensor.seen_through(tensor.operand.view.permute(order))


def transpose(x: TensorLike, *axes: int | Sequence[int]) -> Tensor:
    """Two axes exchanged (the last two by default), as in PyTorch; or, given a sequence or more axes, NumPy's permutation."""
    if len(axes) not in (0, 2) or not all(isinstance(axis, int) for axis in axes):
        return permute(x, *axes)
    tensor = as_tensor(x)
    order = list(range(tensor.ndim))
    first, second = (int(axis) for axis in flat_arguments(axes or (-2, -1)))  # type: ignore[arg-type]  # sizes are axes here
    a, b = normal_axis(first, tensor.ndim), normal_axis(second, tensor.ndim)
    order[a], order[b] = b, a
    return permute(tensor, order)


def movedim(x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Axes `source` moved to the places `destination`; the others keep their order."""
    tensor = as_tensor(x)
    starts = [normal_axis(k, tensor.ndim) for k in ([source] if isinstance(source, int) else source)]
    ends = [normal_axis(k, tensor.ndim) for k in ([destination] if isinstance(destination, int) else destination)]
    order = [k for k in range(tensor.ndim) if k not in starts]
    for end, start in sorted(zip(ends, starts, strict=True)):
        order.insert(end, start)
    return permute(tensor, order)


def expand(x: TensorLike, *shape: ShapeLike) -> Tensor:
    """Axes of extent 1 repeated to `shape`; -1 keeps an extent; new axes may stand in front."""
    tensor = as_tensor(x)
    target = flat_arguments(shape)
    offset = len(target) - tensor.ndim
    sizes = [
        tensor.shape[k - offset] if isinstance(size, int) and size == -1 and k >= offset else as_size(size)
        for k, size in enumerate(target)
    ]
    return tensor.seen_through(expanded(tensor.operand.view, tuple(sizes)))


def broadcast_to(x: TensorLike, shape: ShapeLike) -> Tensor:
    """x repeated along axes of extent 1 to `shape`."""
    return expand(x, shape)


def broadcast_tensors(*tensors: TensorLike) -> tuple[Tensor, ...]:
    """The tensors in one shape."""
    return broadcast(*lift(*tensors))


def squeeze(x: TensorLike, axis: AxisLike = None) -> Tensor:
    """Without axes of extent 1: the given ones (ShapeError where another extent), or all of them."""
    tensor = as_tensor(x)
    if axis is None:
        dropped = tuple(k for k, size in enumerate(tensor.shape) if size == 1)
    else:
        dropped = normal_axes(axis, tensor.ndim)
    wrong = [k for k in dropped if tensor.shape[k] != 1]
    if wrong:
        raise ShapeError(f"squeeze expected extent 1 at axis {wrong[0]} of {show_shape(tensor.shape)}")
    return reshape(tensor, [size for k, size in enumerate(tensor.shape) if k not in dropped])


def unsqueeze(x: TensorLike, axis: int | Sequence[int]) -> Tensor:
    """New axes of extent 1 at the given places of the result."""
    tensor = as_tensor(x)
    count = 1 if isinstance(axis, int) else len(axis)
    places = normal_axes(axis, tensor.ndim + count)
    sizes = iter(tensor.shape)
    return reshape(tensor, [1 if k in places else next(sizes) for k in range(tensor.ndim + count)])


def flatten(x: TensorLike, start: int = 0, end: int = -1) -> Tensor:
    """Axes start..end (both included) as one."""
    tensor = as_tensor(x)
    if tensor.ndim == 0:
        return reshape(tensor, (1,))
    first, last = normal_axis(start, tensor.ndim), normal_axis(end, tensor.ndim)
    merged = as_size(product(list(tensor.shape[first : last + 1])))
    return reshape(tensor, (*tensor.shape[:first], merged, *tensor.shape[last + 1 :]))


def unflatten(x: TensorLike, axis: int, sizes: Sequence[SizeLike]) -> Tensor:
    """One axis as several, whose sizes multiply to its extent (one may be -1)."""
    tensor = as_tensor(x)
    k = normal_axis(axis, tensor.ndim)
    inner = resolve_shape((tensor.shape[k],), list(sizes))
    return reshape(tensor, (*tensor.shape[:k], *inner, *tensor.shape[k + 1 :]))


def flip(x: TensorLike, axis: AxisLike = None) -> Tensor:
    """The order along the axes reversed (along all of them for None)."""
    tensor = as_tensor(x)
    axes = normal_axes(axis, tensor.ndim)
    starts = [as_expr(size) - 1 if k in axes else 0 for k, size in enumerate(tensor.shape)]
    steps = [-1 if k in axes else 1 for k in range(tensor.ndim)]
    return tensor.seen_through(tensor.operand.view.slice(starts, tensor.shape, steps))


def crop(x: Tensor, axis: int, start: SizeLike, size: SizeLike, step: int = 1) -> Tensor:
    """`size` elements along one axis from `start`; the bounds are the caller's duty."""
    k = normal_axis(axis, x.ndim)
    starts = [start if j == k else 0 for j in range(x.ndim)]
    sizes = [size if j == k else extent for j, extent in enumerate(x.shape)]
    steps = [step if j == k else 1 for j in range(x.ndim)]
    return x.seen_through(x.operand.view.slice(starts, sizes, steps))


def zero_pad(x: Tensor, axis: int, before: SizeLike, after: SizeLike) -> Tensor:
    """Zeros (false for bool) around one axis; negative amounts crop."""
    k = normal_axis(axis, x.ndim)
    low = [before if j == k else 0 for j in range(x.ndim)]
    high = [after if j == k else 0 for j in range(x.ndim)]
    return x.seen_through(x.operand.view.pad(low, high))


def window(x: TensorLike, axis: int, length: int, step: int = 1, dilation: int = 1) -> Tensor:
    """Sliding windows along `axis`: its extent becomes their number, a new last axis holds each window."""
    tensor = as_tensor(x)
    k = normal_axis(axis, tensor.ndim)
    span, extent = dilation * (length - 1) + 1, tensor.shape[k]
    if length < 1 or step < 1 or dilation < 1:
        raise ShapeError(
            f"window expected length, step and dilation of at least 1, received {length}, {step}, {dilation}"
        )
    if isinstance(extent, int) and extent < span:
        raise ShapeError(f"a window of {span} elements does not fit axis {k} of extent {extent}; pad it first")
    return tensor.seen_through(tensor.operand.view.window(k, length, step, dilation))


def _reindexed(x: Tensor, axis: int, extent: Size, rule: str, amount: SizeLike) -> Tensor:
    """One axis read at a remainder or a quotient of its coordinate."""
    shape = tuple(extent if k == axis else size for k, size in enumerate(x.shape))
    place = list(coordinates(shape))
    place[axis] = place[axis] // amount if rule == "quotient" else (place[axis] - amount) % as_expr(x.shape[axis])
    return x.seen_through(x.operand.view.then(View(shape, tuple(place))))


def roll(x: TensorLike, shift: int | Sequence[int], axis: AxisLike = None) -> Tensor:
    """Elements moved by `shift` places along the axes, those that fall off the end coming in at the front."""
    tensor = as_tensor(x)
    if axis is None:
        return reshape(roll(flatten(tensor), shift, 0), tensor.shape)
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift)
    for one, amount in zip(axes, shifts, strict=True):
        k = normal_axis(one, tensor.ndim)
        if tensor.shape[k] != 0:
            tensor = _reindexed(tensor, k, tensor.shape[k], "remainder", amount)
    return tensor


def repeat(x: TensorLike, count: int, axis: int | None = None) -> Tensor:
    """Each element `count` times in a row (NumPy's repeat, PyTorch's repeat_interleave)."""
    tensor = as_tensor(x)
    if count < 0:
        raise ShapeError(f"repeat expected a count of at least 0, received {count}")
    if axis is None:
        return repeat(flatten(tensor), count, 0)
    k = normal_axis(axis, tensor.ndim)
    extent = as_size(as_expr(tensor.shape[k]) * count)
    if count == 0:
        return crop(tensor, k, 0, 0)
    return _reindexed(tensor, k, extent, "quotient", count)


def tile(x: TensorLike, *counts: int | Sequence[int]) -> Tensor:
    """The whole tensor repeated `counts[k]` times along axis k (axes counted from the last, as in NumPy)."""
    tensor = as_tensor(x)
    given = [int(count) for count in flat_arguments(counts)]  # type: ignore[arg-type]  # counts are plain integers
    rank = max(len(given), tensor.ndim)
    repeats = [1] * (rank - len(given)) + given
    sizes = [1] * (rank - tensor.ndim) + list(tensor.shape)
    split = reshape(tensor, [size for pair in zip([1] * rank, sizes, strict=True) for size in pair])
    wide = expand(split, [size for pair in zip(repeats, sizes, strict=True) for size in pair])
    return reshape(wide, [as_size(as_expr(size) * count) for count, size in zip(repeats, sizes, strict=True)])


def diagonal(x: TensorLike, offset: int = 0) -> Tensor:
    """The elements [..., i, i + offset] of the last two axes (of known extents or equal ones)."""
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"diagonal expected at least two axes, received {show_shape(tensor.shape)}")
    rows, columns = tensor.shape[-2:]
    if isinstance(rows, int) and isinstance(columns, int):
        length: Size = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    else:
        broadcast_shape((rows,), (columns,))
        length = as_size(as_expr(rows) - abs(offset))
    shape = (*tensor.shape[:-2], length)
    place = coordinates(shape)
    indices = (*place[:-1], place[-1] + max(0, -offset), place[-1] + max(0, offset))
    return tensor.seen_through(tensor.operand.view.then(View(shape, indices)))
