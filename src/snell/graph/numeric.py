"""How the reference interpreters hold and convert values: floats as float64, integers and bool in their own dtype.

`widened` brings an array of a dtype into that form, `converted` is the meaning of `Contiguous` (the only cast),
`narrowed` rounds to what is stored.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from snell.dtypes import DType

__all__ = ["Array", "constant", "converted", "narrowed", "widened", "zero"]

Array = np.ndarray[Any, np.dtype[Any]]


def widened(values: Array, dtype: DType) -> Array:
    """Stored values → interpreter values."""
    return values.astype(np.float64) if dtype.is_float else values.astype(dtype.numpy, copy=False)


def narrowed(values: Array, dtype: DType) -> Array:
    """Interpreter values → stored values, rounded to nearest even."""
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy, copy=False)


def constant(value: Fraction | int | float, dtype: DType) -> Array:
    """An exact scalar as an interpreter value: floats are not rounded below float64, integers wrap."""
    if dtype.is_float:
        return np.asarray(float(value), np.float64)
    if dtype.kind == "bool":
        return np.asarray(bool(value))
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    if dtype.kind == "int" and wrapped >> (dtype.bits - 1):
        wrapped -= 1 << dtype.bits
    return np.asarray(wrapped, dtype.numpy)


def zero(dtype: DType) -> Array:
    return constant(0, dtype)


def converted(values: Array, source: DType, target: DType) -> Array:
    """The cast: a float target rounds, float→int truncates and saturates with NaN→0, int→int wraps, →bool is `!= 0`."""
    if source == target:
        return values
    with np.errstate(all="ignore"):
        if target.kind == "bool":
            return np.asarray(values != 0)
        if target.is_float:
            return values.astype(target.numpy).astype(np.float64)
        if source.is_float:
            return _truncated(values, target)
        wrapped = values.astype(target.numpy)
        return wrapped & np.uint8((1 << target.bits) - 1) if target.is_packed else wrapped


def _truncated(values: Array, target: DType) -> Array:
    lowest, highest = target.range
    inside = np.where(np.isnan(values), 0.0, np.trunc(values))
    low, high = inside <= float(lowest), inside >= float(highest)
    result = np.where(low | high, 0.0, inside).astype(target.numpy)
    result = np.where(high, np.asarray(highest, target.numpy), result)
    return np.where(low, np.asarray(lowest, target.numpy), result)
