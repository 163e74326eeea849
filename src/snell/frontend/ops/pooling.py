"""Pooling over sliding windows of the last axes of (n, channels, *spatial).  The stride defaults to the window."""

from __future__ import annotations

from collections.abc import Sequence

from snell.errors import ShapeError
from snell.frontend.ops.convolution import Padding, padding_pairs, per_dimension
from snell.frontend.ops.creation import ones
from snell.frontend.ops.elementwise import astype, divide, wide
from snell.frontend.ops.joining import pad
from snell.frontend.ops.movement import window
from snell.frontend.ops.reduction import max as max_of
from snell.frontend.ops.reduction import mean, raw_sum
from snell.frontend.promotion import as_tensor, lift, promote_float
from snell.frontend.shapes import known_size
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import Size, show_shape

__all__ = ["avg_pool", "global_avg_pool", "global_max_pool", "max_pool"]


class _Windows:
    """The windows of a pooling call: lengths, strides, dilations and the padding, with ceil_mode's extra at the end."""

    def __init__(
        self,
        shape: Sequence[Size],
        size: int | Sequence[int],
        stride: int | Sequence[int] | None,
        padding: Padding,
        dilation: int | Sequence[int],
        ceil_mode: bool,
    ) -> None:
        rank = len(shape) - 2
        if rank < 1:
            raise ShapeError(f"pooling expected (n, channels, *spatial), received {show_shape(tuple(shape))}")
        self.lengths = per_dimension(size, rank, "window")
        self.strides = self.lengths if stride is None else per_dimension(stride, rank, "stride")
        self.dilations = per_dimension(dilation, rank, "dilation")
        self.spans = [d * (n - 1) + 1 for d, n in zip(self.dilations, self.lengths, strict=True)]
        self.padding = padding_pairs(padding, self.spans, self.strides)
        self.extra = [self._ceiling(k, shape[2 + k]) if ceil_mode else 0 for k in range(rank)]

    def _ceiling(self, k: int, size: Size) -> int:
        """Elements past the padded end that one more window needs; none where it would start in the padding."""
        before, after = self.padding[k]
        extent, stride = known_size(size, "ceil_mode"), self.strides[k]
        rest = (extent + before + after - self.spans[k]) % stride
        positions = (extent + before + after - self.spans[k]) // stride + 1
        return stride - rest if rest and positions * stride < extent + before else 0

    def of(self, x: Tensor, value: float, *, with_padding: bool = True) -> Tensor:
        """(n, c, *positions, *window) with `value` in the padding."""
        pairs = [(low, high + more) for (low, high), more in zip(self.padding, self.extra, strict=True)]
        if not with_padding:
            pairs = [(0, more) for more in self.extra]
        x = pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, value)
        first = x.ndim - len(pairs)
        for k in range(len(pairs)):
            x = window(x, first + k, self.lengths[k], self.strides[k], self.dilations[k])
        return x


def max_pool(
    x: TensorLike,
    size: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: Padding = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The greatest element of each window, NaN where there is one; the padding never wins."""
    tensor = as_tensor(x)
    windows = _Windows(tensor.shape, size, stride, padding, dilation, ceil_mode).of(tensor, tensor.dtype.lowest)
    return max_of(windows, range(tensor.ndim, windows.ndim))


def avg_pool(
    x: TensorLike,
    size: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window; padding counts as zeros unless `count_include_pad` is false."""
    (tensor,) = promote_float(x)
    values = wide(tensor)
    rank = tensor.ndim - 2
    places = _Windows(tensor.shape, size, stride, padding, 1, ceil_mode)
    windows = places.of(values, 0)
    axes = range(tensor.ndim, tensor.ndim + rank)
    if count_include_pad and not any(places.extra):
        return astype(mean(windows, axes), tensor.dtype)
    total = raw_sum(windows, axes)
    _, counted = lift(values, ones(tensor.shape[2:], values.dtype))
    if count_include_pad:
        counted = pad(counted, places.padding, 1)
    counts = raw_sum(places.of(counted, 0, with_padding=not count_include_pad), range(rank, 2 * rank))
    return astype(divide(total, counts), tensor.dtype)


def global_avg_pool(x: TensorLike) -> Tensor:
    """The mean over all positions: (n, c, *spatial) → (n, c, 1, …)."""
    tensor = as_tensor(x)
    return mean(tensor, range(2, tensor.ndim), keepdims=True)


def global_max_pool(x: TensorLike) -> Tensor:
    """The greatest element over all positions, NaN where there is one: (n, c, *spatial) → (n, c, 1, …)."""
    tensor = as_tensor(x)
    return max_of(tensor, range(2, tensor.ndim), keepdims=True)
