"""Activations: element-wise non-linearities of networks, and softmax.  Floats keep their dtype; integers become f32."""

from __future__ import annotations

import math

from snell.errors import UnsupportedError
from snell.frontend.custom import stop_gradient
from snell.frontend.ops.comparison import absolute, clip, less, maximum, minimum, where
from snell.frontend.ops.elementwise import astype, erf, exp, expm1, log, log1p, negative, sigmoid, subtract, tanh, wide
from snell.frontend.ops.reduction import raw_max, raw_sum
from snell.frontend.promotion import as_tensor, promote_float
from snell.frontend.shapes import AxisLike
from snell.frontend.tensor import Tensor, TensorLike

__all__ = [
    "celu", "elu", "gelu", "hardsigmoid", "hardswish", "leaky_relu", "log_sigmoid", "log_softmax", "mish", "relu",
    "relu6", "selu", "silu", "softmax", "softplus", "softsign",
]  # fmt: skip


def relu(x: TensorLike) -> Tensor:
    """max(0, x); NaN stays; its gradient at 0 is 0."""
    return maximum(0, as_tensor(x))


def relu6(x: TensorLike) -> Tensor:
    """x limited to 0..6."""
    return clip(x, 0, 6)


def leaky_relu(x: TensorLike, slope: float = 0.01) -> Tensor:
    """x where x > 0, else slope·x."""
    (y,) = promote_float(x)
    return where(less(0, y), y, y * slope)


def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha·(eˣ - 1)."""
    (y,) = promote_float(x)
    return where(less(0, y), y, expm1(y) * alpha)


def celu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha·(exp(x/alpha) - 1)."""
    (y,) = promote_float(x)
    return where(less(0, y), y, expm1(y / alpha) * alpha)


def selu(x: TensorLike) -> Tensor:
    """The self-normalising elu (Klambauer et al., 2017)."""
    return elu(x, 1.6732632423543772) * 1.0507009873554805


def gelu(x: TensorLike, approximate: str = "none") -> Tensor:
    """x·Φ(x) with the error function ("none") or its tanh approximation ("tanh")."""
    (y,) = promote_float(x)
    if approximate == "none":
        return y * 0.5 * (erf(y * math.sqrt(0.5)) + 1.0)
    if approximate == "tanh":
        return y * 0.5 * (tanh((y + y * y * y * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)
    raise UnsupportedError(f"gelu expected approximate 'none' or 'tanh', received {approximate!r}")


def silu(x: TensorLike) -> Tensor:
    """x·sigmoid(x), also called swish."""
    (y,) = promote_float(x)
    return y * sigmoid(y)


def softplus(x: TensorLike) -> Tensor:
    """ln(1 + eˣ), as max(x, 0) + log1p(exp(min(-x, x)))."""
    (y,) = promote_float(x)
    # At 0 both parts have the derivative of y > 0, whose sum is sigmoid(0); -|y| would have the derivative 0.
    return maximum(y, 0) + log1p(exp(minimum(negative(y), y)))


def log_sigmoid(x: TensorLike) -> Tensor:
    """ln sigmoid(x)."""
    return negative(softplus(negative(as_tensor(x))))


def softsign(x: TensorLike) -> Tensor:
    """x / (1 + |x|)."""
    (y,) = promote_float(x)
    return y / (absolute(y) + 1.0)


def mish(x: TensorLike) -> Tensor:
    """x·tanh(softplus(x))."""
    (y,) = promote_float(x)
    return y * tanh(softplus(y))


def hardsigmoid(x: TensorLike) -> Tensor:
    """x/6 + 1/2 limited to 0..1."""
    (y,) = promote_float(x)
    return clip(y / 6.0 + 0.5, 0.0, 1.0)


def hardswish(x: TensorLike) -> Tensor:
    """x·hardsigmoid(x)."""
    (y,) = promote_float(x)
    return y * hardsigmoid(y)


def softmax(x: TensorLike, axis: AxisLike = -1) -> Tensor:
    """exp(x - max) / Σ exp(x - max) over the axis; NaN where all are -inf.  f16 and bf16 are computed in f32."""
    (y,) = promote_float(x)
    values = wide(y)
    powers = exp(subtract(values, stop_gradient(raw_max(values, axis, keepdims=True))))
    return astype(powers / raw_sum(powers, axis, keepdims=True), y.dtype)


def log_softmax(x: TensorLike, axis: AxisLike = -1) -> Tensor:
    """ln softmax(x), computed as x - max - ln Σ exp(x - max)."""
    (y,) = promote_float(x)
    values = wide(y)
    shifted = subtract(values, stop_gradient(raw_max(values, axis, keepdims=True)))
    return astype(subtract(shifted, log(raw_sum(exp(shifted), axis, keepdims=True))), y.dtype)
