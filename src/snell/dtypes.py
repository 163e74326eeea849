"""Element types: names, sizes, NumPy equivalents, ranges and the array API promotion table.

`u1`, `u2` and `u4` are packed fields of planes (inputs only): arithmetic on them starts with a cast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from snell.deferred import deferred
from snell.errors import DTypeError

# Only bfloat16 needs it.
if TYPE_CHECKING:
    import ml_dtypes
else:
    ml_dtypes = deferred("ml_dtypes")

__all__ = [
    "ALL", "DType", "bf16", "bool_", "f16", "f32", "f64", "from_name", "from_numpy", "i8", "i16", "i32", "i64",
    "promote", "u1", "u2", "u4", "u8", "u16", "u32", "u64",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DType:
    """An element type; `kind` is one of bool, uint, int, float; `bits` its size in a plane or buffer."""

    name: str
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_packed(self) -> bool:
        return self.bits < 8 and self.kind == "uint"

    @property
    def itemsize(self) -> int:
        """Bytes of one element in an ordinary buffer (packed fields are planes only)."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype that holds this type's values (packed fields unpack to uint8)."""
        return np.dtype(ml_dtypes.bfloat16 if self.name == "bf16" else _NUMPY[self.name])

    @property
    def range(self) -> tuple[float, float]:
        """Least and greatest finite value (integers exactly, as Python integers)."""
        if self.kind == "bool":
            return 0, 1
        if self.is_float:
            top = float(ml_dtypes.finfo(self.numpy).max if self.name == "bf16" else np.finfo(self.numpy).max)
            return -top, top
        if self.kind == "uint":
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    @property
    def lowest(self) -> float:
        """Identity of the maximum: -inf for floats, the least integer else."""
        return -math.inf if self.is_float else self.range[0]

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


bool_ = DType("bool", "bool", 8)
u1, u2, u4 = DType("u1", "uint", 1), DType("u2", "uint", 2), DType("u4", "uint", 4)
u8, u16, u32, u64 = (DType(f"u{n}", "uint", n) for n in (8, 16, 32, 64))
i8, i16, i32, i64 = (DType(f"i{n}", "int", n) for n in (8, 16, 32, 64))
f16, f32, f64 = (DType(f"f{n}", "float", n) for n in (16, 32, 64))
bf16 = DType("bf16", "float", 16)

ALL = (bool_, u1, u2, u4, u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64)
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_NUMPY: dict[str, Any] = {
    "bool": np.bool_, "u1": np.uint8, "u2": np.uint8, "u4": np.uint8, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_FROM_NUMPY = {np.dtype(_NUMPY[dtype.name]): dtype for dtype in ALL if not dtype.is_packed and dtype is not bf16}
_ALIASES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


def from_name(name: str) -> DType:
    """`f32` or `float32` → the dtype; DTypeError names what exists."""
    found = _BY_NAME.get(_ALIASES.get(name, name))
    if found is None:
        raise DTypeError(f"unknown dtype {name!r}; expected one of {', '.join(_BY_NAME)}")
    return found


def from_numpy(dtype: Any) -> DType:
    """The dtype of a NumPy dtype; DTypeError where snell has none (complex, strings, objects)."""
    found = _FROM_NUMPY.get(np.dtype(dtype)) or (bf16 if np.dtype(dtype).name == "bfloat16" else None)
    if found is None:
        raise DTypeError(f"arrays of {np.dtype(dtype)} are not supported; cast to one of {', '.join(_BY_NAME)} first")
    return found


def promote(a: DType, b: DType) -> DType:
    """Common type by the array API standard; integer with float gives the float, f16 with bf16 gives f32."""
    if a == b:
        return a
    if a.is_packed or b.is_packed:
        raise DTypeError(f"packed {a if a.is_packed else b} must be cast before arithmetic; call .astype(...)")
    if a.kind == "bool" or b.kind == "bool":
        return b if a.kind == "bool" else a
    if a.is_float or b.is_float:
        return _promote_float(a, b)
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    wider = _BY_NAME.get(f"i{unsigned.bits * 2}")
    if wider is None:
        raise DTypeError(f"no integer type holds both {a} and {b}; cast one of them explicitly")
    return wider


def _promote_float(a: DType, b: DType) -> DType:
    if not (a.is_float and b.is_float):
        return a if a.is_float else b
    if a.bits == b.bits:
        return f32
    return a if a.bits > b.bits else b
