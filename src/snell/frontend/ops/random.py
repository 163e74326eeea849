"""Random numbers as functions of a key: Philox4x32-10 bits, the same on every target, thread count and schedule.

A key is u32 (2,).  Never use one twice: `split` it, or `fold_in` a number.  Shapes may hold Dims.
"""

from __future__ import annotations

import math
from typing import Any

from snell.dtypes import f32, i64, u32, u64
from snell.errors import DTypeError, ShapeError
from snell.frontend.context import Trace
from snell.frontend.ops.comparison import less, where
from snell.frontend.ops.division import modulo
from snell.frontend.ops.elementwise import add, astype, cos, log, multiply, negative, sqrt, subtract
from snell.frontend.ops.indexing import take
from snell.frontend.ops.joining import concatenate
from snell.frontend.ops.movement import reshape
from snell.frontend.ops.reduction import argmax
from snell.frontend.ops.sorting import argsort
from snell.frontend.promotion import DTypeLike, as_dtype, as_tensor, constant_in, lift
from snell.frontend.shapes import ShapeLike, SizeLike, as_shape
from snell.frontend.tensor import Tensor, TensorLike
from snell.graph.primitives import Random
from snell.symbolic import Shape, show_shape

__all__ = [
    "bernoulli", "bits", "categorical", "fold_in", "key", "normal", "permutation", "randint", "split", "uniform",
]  # fmt: skip

# Keeps what `fold_in` derives apart from what `split` derives of the same key (a digit string of the golden ratio).
_FOLD_TAG = 0x9E3779B9


def key(seed: int) -> Tensor:
    """The key of a seed: its low and high 32 bits."""
    trace = Trace(floating=True)
    words = [constant_in(trace, (seed >> shift) & 0xFFFFFFFF, u32) for shift in (0, 32)]
    return concatenate([reshape(word, (1,)) for word in words])


def _checked(key: TensorLike) -> Tensor:
    tensor = as_tensor(key)
    if tensor.dtype != u32 or tensor.shape != (2,):
        raise DTypeError(
            f"a key is u32(2,), received {tensor.dtype}{show_shape(tensor.shape)}; make one with random.key"
        )
    return tensor


def bits(key: TensorLike, shape: ShapeLike) -> Tensor:
    """u32 random bits; an element depends on the key and its row-major index alone."""
    source = _checked(key)
    return Tensor(source.trace.add(Random(as_shape(shape)), [source.operand]), source.trace)


def split(key: TensorLike, count: int = 2) -> tuple[Tensor, ...]:
    """`count` new independent keys."""
    words = bits(key, (count, 2))
    return tuple(words[k] for k in range(count))


def fold_in(key: TensorLike, number: TensorLike) -> Tensor:
    """A new key from a key and an integer (a step, a position; may be a tensor)."""
    mixed, value = lift(bits(key, (2,)), number)
    if not value.dtype.is_integer or value.ndim != 0:
        raise DTypeError(f"fold_in expected an integer scalar, received {value.dtype}{show_shape(value.shape)}")
    whole = astype(Tensor(value.operand, value.trace), u64)
    low = astype(whole, u32)
    high = astype(whole // (1 << 32), u32) + _FOLD_TAG
    words = concatenate([reshape(low, (1,)), reshape(high, (1,))])
    return bits(add(mixed, words), (2,))


def _unit(words: Tensor) -> Tensor:
    """24 bits of each word as an f32 in [0, 1)."""
    return astype(subtract(words, modulo(words, 256)), f32) * 2.0**-32


def uniform(
    key: TensorLike, shape: ShapeLike = (), dtype: DTypeLike = f32, low: TensorLike = 0.0, high: TensorLike = 1.0
) -> Tensor:
    """Floats in [low, high), multiples of 2⁻²⁴ of the interval."""
    unit = _unit(bits(key, shape))
    return astype(unit * subtract(high, low) + low, _float(dtype))


def normal(key: TensorLike, shape: ShapeLike = (), dtype: DTypeLike = f32) -> Tensor:
    """Standard normal floats (Box and Muller, 1958): √(-2 ln u)·cos 2πv with u in (0, 1]."""
    sizes = as_shape(shape)
    words = bits(key, (2, *sizes))
    u, v = 1.0 - _unit(words[0]), _unit(words[1])
    return astype(multiply(sqrt(log(u) * -2.0), cos(v * (2 * math.pi))), _float(dtype))


def bernoulli(key: TensorLike, probability: TensorLike = 0.5, shape: ShapeLike | None = None) -> Tensor:
    """bool, true with the probability (which broadcasts to the shape, its own by default)."""
    source, chance = lift(_checked(key), probability)
    return less(uniform(source, chance.shape if shape is None else shape), chance)


def randint(key: TensorLike, shape: ShapeLike, low: int, high: int, dtype: DTypeLike = i64) -> Tensor:
    """Integers in low..high-1, from 64 bits each (bias below (high - low)/2⁶⁴).  ShapeError for an empty range."""
    if high <= low:
        raise ShapeError(f"randint expected low < high, received {low}..{high}")
    target = as_dtype(dtype)
    if not target.is_integer:
        raise DTypeError(f"randint expected an integer dtype, received {target}")
    words = astype(bits(key, (2, *as_shape(shape))), u64)
    drawn = modulo(words[0] * (1 << 32) + words[1], high - low)
    return astype(astype(drawn, i64) + low, target)


def categorical(key: TensorLike, logits: TensorLike, axis: int = -1, shape: ShapeLike | None = None) -> Tensor:
    """i64 indices drawn with probability softmax(logits) along the axis (Gumbel's argmax).

    `shape` puts sample axes in front: (*shape, *logits.shape without the axis).
    """
    source, scores = lift(_checked(key), logits)
    full: Shape = (*as_shape(shape or ()), *scores.shape)
    place = axis if axis < 0 else axis - scores.ndim
    u = 1.0 - _unit(bits(source, full))
    # ln(-ln u) is +inf at u = 1: such an element is never the greatest of its row unless all are.
    gumbel = negative(log(negative(log(u))))
    return argmax(where(less(-math.inf, scores), scores + gumbel, -math.inf), place)


def permutation(key: TensorLike, x: SizeLike | Tensor, axis: int = 0) -> Tensor:
    """0..n-1 in random order, or a tensor's slices along the axis; the extent must be known."""
    extent: Any = x.shape[axis] if isinstance(x, Tensor) else x
    order = argsort(bits(key, extent))
    return take(x, order, axis) if isinstance(x, Tensor) else order


def _float(dtype: DTypeLike) -> Any:
    target = as_dtype(dtype)
    if not target.is_float:
        raise DTypeError(f"expected a float dtype, received {target}; use randint for integers")
    return target
