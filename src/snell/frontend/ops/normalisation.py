"""Normalisation: statistics are two-pass and centred, and computed in f32 for f16 and bf16."""

from __future__ import annotations

from collections.abc import Sequence

from snell.errors import ShapeError
from snell.frontend.ops.elementwise import astype, rsqrt, square, subtract, wide
from snell.frontend.ops.movement import reshape
from snell.frontend.ops.reduction import mean
from snell.frontend.promotion import as_tensor, promote_float
from snell.frontend.shapes import AxisLike, normal_axes
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import as_expr, as_size, show_shape

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


def _normalised(x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    centred = subtract(x, mean(x, axes, keepdims=True))
    return centred * rsqrt(mean(square(centred), axes, keepdims=True) + epsilon)


def _scaled(x: Tensor, weight: TensorLike | None, bias: TensorLike | None) -> Tensor:
    if weight is not None:
        x = x * wide(as_tensor(weight))
    if bias is not None:
        x = x + wide(as_tensor(bias))
    return x


def layer_norm(
    x: TensorLike,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    epsilon: float = 1e-5,
    axis: AxisLike = -1,
) -> Tensor:
    """(x - mean) / √(variance + epsilon) over the axes, times weight, plus bias (both broadcast)."""
    (y,) = promote_float(x)
    result = _normalised(wide(y), normal_axes(axis, y.ndim), epsilon)
    return astype(_scaled(result, weight, bias), y.dtype)


def rms_norm(x: TensorLike, weight: TensorLike | None = None, *, epsilon: float = 1e-6, axis: AxisLike = -1) -> Tensor:
    """x / √(mean(x²) + epsilon) over the axes, times weight."""
    (y,) = promote_float(x)
    values = wide(y)
    result = values * rsqrt(mean(square(values), axis, keepdims=True) + epsilon)
    return astype(_scaled(result, weight, None), y.dtype)


def group_norm(
    x: TensorLike,
    groups: int,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    epsilon: float = 1e-5,
) -> Tensor:
    """(n, channels, …) normalised over each of `groups` groups of channels and all positions; weight, bias (channels,).

    Raises ShapeError where `groups` does not divide the channels.
    """
    (y,) = promote_float(x)
    if y.ndim < 2:
        raise ShapeError(f"group_norm expected (n, channels, …), received {show_shape(y.shape)}")
    channels = as_expr(y.shape[1])
    if groups < 1 or (channels // groups) * groups != channels:
        raise ShapeError(f"group_norm expected groups that divide {channels} channels, received {groups}")
    parts = reshape(wide(y), [y.shape[0], groups, as_size(channels // groups), *y.shape[2:]])
    normalised = reshape(_normalised(parts, range(2, parts.ndim), epsilon), y.shape)
    return astype(_scaled(normalised, _per_channel(weight, y), _per_channel(bias, y)), y.dtype)


def instance_norm(
    x: TensorLike, weight: TensorLike | None = None, bias: TensorLike | None = None, *, epsilon: float = 1e-5
) -> Tensor:
    """(n, channels, …) normalised over the positions of each channel of each sample."""
    (y,) = promote_float(x)
    normalised = _normalised(wide(y), range(2, y.ndim), epsilon)
    return astype(_scaled(normalised, _per_channel(weight, y), _per_channel(bias, y)), y.dtype)


def batch_norm(
    x: TensorLike,
    running_mean: TensorLike,
    running_var: TensorLike,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    epsilon: float = 1e-5,
) -> Tensor:
    """(n, channels, …) with the given statistics (channels,): (x - mean)·(weight / √(var + epsilon)) + bias."""
    (y,) = promote_float(x)
    average, variance = _per_channel(running_mean, y), _per_channel(running_var, y)
    assert average is not None  # given, hence not None
    assert variance is not None
    centred = subtract(wide(y), wide(average))
    result = _scaled(centred * rsqrt(wide(variance) + epsilon), _per_channel(weight, y), _per_channel(bias, y))
    return astype(result, y.dtype)


def _per_channel(value: TensorLike | None, x: Tensor) -> Tensor | None:
    """(channels,) as (channels, 1, …) beside (n, channels, …)."""
    if value is None:
        return None
    tensor = as_tensor(value)
    if tensor.shape != (x.shape[1],):
        raise ShapeError(f"expected one value a channel, ({x.shape[1]},), received {show_shape(tensor.shape)}")
    return reshape(tensor, [*tensor.shape, *([1] * (x.ndim - 2))])
