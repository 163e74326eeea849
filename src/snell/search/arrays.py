"""Random operands for a candidate, by dtype, and how far two results of the same arithmetic may differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from snell.loops.ir import Buffer
from snell.symbolic import Dim, as_expr

__all__ = ["difference", "largest", "operand", "operand_bytes", "operands", "shape_at"]

Array = np.ndarray[Any, Any]

_INDICES = 97  # random integers are below this: guards and clamps keep loaded indices inside
_BYTES = (0x28, 0x3C)  # as halves of 16-bit and quarters of 32-bit floats: moderate numbers, never infinite


def shape_at(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a buffer at given sizes."""
    return tuple(int(as_expr(size).evaluate(_values(size, sizes))) for size in buffer.shape)


def _values(size: object, sizes: Mapping[str, int]) -> dict[Dim, int]:
    return {dim: sizes[dim.name] for dim in as_expr(size).dims()}


def operand_bytes(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    """Bytes of the array for a buffer; of a window of bytes, up to its last element."""
    shape, storage = shape_at(buffer, sizes), buffer.tensor.storage
    if storage is None:
        return math.prod(shape) * buffer.dtype.itemsize
    last = sum(abs(stride) * max(n - 1, 0) for stride, n in zip(storage.strides, shape, strict=True))
    return storage.offset + (last + buffer.dtype.bits + 7) // 8


def operands(buffers: Sequence[Buffer], sizes: Mapping[str, int]) -> dict[str, Array]:
    """Arrays for buffers that are read, by name; the same numbers in every process."""
    generator = np.random.default_rng(0)
    return {buffer.name: operand(buffer, sizes, generator) for buffer in buffers}


def operand(buffer: Buffer, sizes: Mapping[str, int], generator: np.random.Generator) -> Array:
    """An array for a buffer that is read; the same numbers for the same generator."""
    storage = buffer.tensor.storage
    shape = shape_at(buffer, sizes)
    if storage is not None:
        return generator.integers(*_BYTES, operand_bytes(buffer, sizes), dtype=np.uint8)
    dtype = buffer.dtype.numpy
    if buffer.dtype.is_float:
        return generator.standard_normal(shape, dtype=np.float32).astype(dtype)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(np.bool_)
    return generator.integers(0, _INDICES, shape).astype(dtype)


def difference(result: Array, expected: Array, terms: float, scale: float = 0.0) -> str | None:
    """Where two results of sums of so many terms differ by more than their order explains; None where they do not.

    Rounding errors of a sum in any order are below `terms·ε` of its terms' sum, and some `√terms·ε` typically; an error of
    indices or tails is as large as a value.  `scale` is how large values are where `expected` holds few of them.
    """
    if expected.dtype.kind in "biu":
        wrong = result != expected
    else:
        one, other = result.astype(np.float64), expected.astype(np.float64)
        allowed = 32.0 * _epsilon(expected.dtype) * (1.0 + math.sqrt(terms)) * max(scale, largest(other), 1e-30)
        with np.errstate(invalid="ignore"):
            wrong = ~((np.abs(one - other) <= allowed) | (one == other) | (np.isnan(one) & np.isnan(other)))
    if not wrong.any():
        return None
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} values differ, first at {place}: {result[place]} instead of {expected[place]}"


def largest(values: Array) -> float:
    """The largest magnitude among the finite values, 0 where there are none."""
    finite = np.abs(values[np.isfinite(values)].astype(np.float64))
    return float(finite.max()) if finite.size else 0.0


def _epsilon(dtype: np.dtype[Any]) -> float:
    if dtype.itemsize == 2:
        return 2.0**-7 if dtype.name == "bfloat16" else 2.0**-10
    return float(np.finfo(dtype).eps)
