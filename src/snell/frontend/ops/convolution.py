"""Convolutions in 1, 2 and 3 dimensions: sliding windows, a product with the kernel, a sum.

Images are (n, channels, *spatial), kernels (out, channels/groups, *window).  An option is one number, or one a
dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

from snell.errors import ShapeError
from snell.frontend.ops.elementwise import add, multiply
from snell.frontend.ops.movement import crop, flip, reshape, transpose, unsqueeze, window, zero_pad
from snell.frontend.ops.reduction import raw_sum
from snell.frontend.promotion import as_tensor, promote
from snell.frontend.shapes import known_size
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import as_expr, as_size, show_shape

__all__ = ["conv", "conv1d", "conv2d", "conv3d", "conv_transpose"]

Padding = int | str | Sequence[int | tuple[int, int]]


def per_dimension(value: int | Sequence[int], rank: int, name: str) -> tuple[int, ...]:
    """One number a spatial dimension."""
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) != rank:
        raise ShapeError(f"{name} expected 1 or {rank} numbers, received {values}")
    return values


def padding_pairs(padding: Padding, spans: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) a dimension; "valid" is none, "same" keeps the extents (stride 1, the odd one after)."""
    if isinstance(padding, str):
        if padding not in ("valid", "same") or (padding == "same" and any(stride != 1 for stride in strides)):
            raise ShapeError(f"padding expected 'valid', 'same' (with stride 1) or numbers, received {padding!r}")
        return [((span - 1) // 2, span // 2) if padding == "same" else (0, 0) for span in spans]
    given = [padding] * len(spans) if isinstance(padding, int) else list(padding)
    if len(given) != len(spans):
        raise ShapeError(f"padding expected 1 or {len(spans)} entries, received {given}")
    return [(entry, entry) if isinstance(entry, int) else entry for entry in given]


def conv(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """(n, c, *spatial) * (o, c/groups, *window) → (n, o, *positions); bias (o,).

    Raises ShapeError where channels, groups or extents do not fit.
    """
    image, kernel = promote(x, weight)
    rank = _spatial_rank(image, kernel, groups)
    lengths = [known_size(size, "a convolution window") for size in kernel.shape[2:]]
    strides, dilations = per_dimension(stride, rank, "stride"), per_dimension(dilation, rank, "dilation")
    spans = [d * (n - 1) + 1 for d, n in zip(dilations, lengths, strict=True)]
    for k, (before, after) in enumerate(padding_pairs(padding, spans, strides)):
        image = zero_pad(image, 2 + k, before, after)
    for k in range(rank):
        image = window(image, 2 + k, lengths[k], strides[k], dilations[k])
    # windows: (n, groups, 1, c/groups, *positions, *window); kernel: (groups, o/groups, c/groups, 1…, *window)
    batch, channels, *places = image.shape
    outputs = as_size(as_expr(kernel.shape[0]) // groups)
    inner = as_size(as_expr(channels) // groups)
    windows = reshape(image, [batch, groups, 1, inner, *places])
    filters = reshape(kernel, [groups, outputs, inner, *[1] * rank, *lengths])
    total = raw_sum(multiply(windows, filters), [3, *range(4 + rank, 4 + 2 * rank)])
    result = reshape(total, [batch, kernel.shape[0], *places[:rank]])
    return result if bias is None else add(result, reshape(as_tensor(bias), [kernel.shape[0], *[1] * rank]))


def _spatial_rank(image: Tensor, kernel: Tensor, groups: int) -> int:
    rank = image.ndim - 2
    fits = rank >= 1 and kernel.ndim == image.ndim
    fits = fits and as_expr(kernel.shape[1]) * groups == as_expr(image.shape[1])
    fits = fits and as_expr(kernel.shape[0]) // groups * groups == as_expr(kernel.shape[0])
    if not fits:
        raise ShapeError(
            f"a convolution expected (n, c, *spatial) and (o, c/{groups}, *window) with {groups} dividing o, "
            f"received {show_shape(image.shape)} and {show_shape(kernel.shape)}"
        )
    return rank


def _of_rank(x: TensorLike, rank: int) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim != rank + 2:
        raise ShapeError(f"conv{rank}d expected {rank + 2} axes (n, c, *spatial), received {show_shape(tensor.shape)}")
    return tensor


def conv1d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, **options: object) -> Tensor:
    """`conv` over (n, c, length)."""
    return conv(_of_rank(x, 1), weight, bias, **options)  # type: ignore[arg-type]  # the options of conv


def conv2d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, **options: object) -> Tensor:
    """`conv` over (n, c, height, width)."""
    return conv(_of_rank(x, 2), weight, bias, **options)  # type: ignore[arg-type]  # the options of conv


def conv3d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, **options: object) -> Tensor:
    """`conv` over (n, c, depth, height, width)."""
    return conv(_of_rank(x, 3), weight, bias, **options)  # type: ignore[arg-type]  # the options of conv


def conv_transpose(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The transpose (gradient) of `conv`: (n, c, *positions) and (c, o/groups, *window) → (n, o, *spatial).

    Each extent becomes (extent - 1)·stride - padding + dilation·(window - 1) + output_padding + 1.
    """
    image, kernel = promote(x, weight)
    rank = image.ndim - 2
    if rank < 1 or kernel.ndim != image.ndim or kernel.shape[0] != image.shape[1]:
        raise ShapeError(
            f"conv_transpose expected (n, c, *positions) and (c, o/groups, *window), "
            f"received {show_shape(image.shape)} and {show_shape(kernel.shape)}"
        )
    strides, dilations = per_dimension(stride, rank, "stride"), per_dimension(dilation, rank, "dilation")
    extra = per_dimension(output_padding, rank, "output_padding")
    spans = [d * (known_size(n, "a window") - 1) for d, n in zip(dilations, kernel.shape[2:], strict=True)]
    pairs = padding_pairs(padding, [span + 1 for span in spans], strides)
    for k in range(rank):
        image = _spread(image, 2 + k, strides[k])
    borders = [(span - low, span - high + more) for span, (low, high), more in zip(spans, pairs, extra, strict=True)]
    inner = as_size(as_expr(kernel.shape[0]) // groups)
    split = reshape(flip(kernel, range(2, 2 + rank)), [groups, inner, *kernel.shape[1:]])
    turned = transpose(split, 1, 2)
    filters = reshape(turned, [as_size(as_expr(kernel.shape[1]) * groups), inner, *kernel.shape[2:]])
    return conv(image, filters, bias, padding=borders, dilation=dilations, groups=groups)


def _spread(x: Tensor, axis: int, stride: int) -> Tensor:
    """stride - 1 zeros between neighbours."""
    if stride == 1:
        return x
    apart = zero_pad(unsqueeze(x, axis + 1), axis + 1, 0, stride - 1)
    extent = as_expr(x.shape[axis]) * stride
    merged = reshape(apart, [*x.shape[:axis], as_size(extent), *x.shape[axis + 1 :]])
    return crop(merged, axis, 0, as_size(extent - (stride - 1)))
