"""`&`, `|`, `^`, `~` and shifts: logic on bool; on integers bit by bit, through remainders by powers of two."""

from __future__ import annotations

import functools
from collections.abc import Callable

from snell.dtypes import bool_
from snell.errors import DTypeError
from snell.frontend.ops.comparison import (
    less,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    minimum,
    reversed_order,
    where,
)
from snell.frontend.ops.division import floor_divide, modulo
from snell.frontend.ops.elementwise import add, astype, multiply, negative
from snell.frontend.ops.power import power
from snell.frontend.promotion import as_tensor, meet, scalar_like
from snell.frontend.tensor import Tensor, TensorLike

__all__ = ["bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]

Logic = Callable[[TensorLike, TensorLike], Tensor]


def _bitwise(a: TensorLike, b: TensorLike, logic: Logic) -> Tensor:
    x, y = meet(a, b)
    if x.dtype == bool_:
        return logic(x, y)
    if not x.dtype.is_integer:
        raise DTypeError(f"bitwise operations expected bool or integers, received {x.dtype}")
    bits = [multiply(astype(logic(_bit(x, k), _bit(y, k)), x.dtype), _weight(x, k)) for k in range(x.dtype.bits)]
    return functools.reduce(add, bits)


def _bit(x: Tensor, k: int) -> Tensor:
    if k == x.dtype.bits - 1:
        return less(x, 0) if x.dtype.kind == "int" else logical_not(less(x, 1 << k))
    if x.dtype.kind == "int" and k == x.dtype.bits - 2:
        # 2^(k+1) does not fit: clear the sign by adding it, which wraps.
        low = add(x, multiply(astype(less(x, 0), x.dtype), _weight(x, k + 1)))
        return logical_not(less(low, 1 << k))
    return logical_not(less(modulo(x, 1 << (k + 1)), 1 << k))


def _weight(x: Tensor, k: int) -> Tensor:
    is_sign = x.dtype.kind == "int" and k == x.dtype.bits - 1
    return scalar_like(x, -(1 << k) if is_sign else 1 << k)


def bitwise_and(a: TensorLike, b: TensorLike) -> Tensor:
    """a & b."""
    return _bitwise(a, b, logical_and)


def bitwise_or(a: TensorLike, b: TensorLike) -> Tensor:
    """a | b."""
    return _bitwise(a, b, logical_or)


def bitwise_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """a ^ b."""
    return _bitwise(a, b, logical_xor)


def bitwise_not(x: TensorLike) -> Tensor:
    """~x: not of bool, -1 - x of integers."""
    tensor = as_tensor(x)
    if tensor.dtype.is_float:
        raise DTypeError(f"~ expected bool or integers, received {tensor.dtype}")
    return logical_not(tensor) if tensor.dtype == bool_ else reversed_order(tensor)


def left_shift(x: TensorLike, count: TensorLike) -> Tensor:
    """x·2^count, wrapping."""
    tensor = as_tensor(x)
    if not tensor.dtype.is_integer:
        raise DTypeError(f"shifts expected integers, received {tensor.dtype}")
    return multiply(tensor, power(scalar_like(tensor, 2), count))


def right_shift(x: TensorLike, count: TensorLike) -> Tensor:
    """⌊x / 2^count⌋ (the sign is kept); 0 or -1 where every digit is shifted out."""
    tensor, places = meet(x, count)
    if not tensor.dtype.is_integer:
        raise DTypeError(f"shifts expected integers, received {tensor.dtype}")
    signed = tensor.dtype.kind == "int"
    longest = tensor.dtype.bits - (2 if signed else 1)  # the greatest power of two that the dtype holds
    shifted = floor_divide(tensor, power(scalar_like(tensor, 2), minimum(places, longest)))
    gone = negative(astype(less(tensor, 0), tensor.dtype)) if signed else scalar_like(tensor, 0)
    return where(less(longest, places), gone, shifted)
