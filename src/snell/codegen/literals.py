"""LLVM's spelling of types and constants; exact values are rounded once, to the nearest even, only here."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from functools import lru_cache

import numpy as np

from snell.codegen.assembler import Value
from snell.dtypes import DType
from snell.errors import CompileError
from snell.targets import Scaling

__all__ = ["literal", "memory_type", "register_type", "rounded", "scaling_call", "suffix", "type_text"]

# Half-precision floats live in integer registers: LLVM would call a library where it splits vectors.
_REGISTER = {
    "bool": "i1", "u1": "i8", "u2": "i8", "u4": "i8", "f16": "i16", "bf16": "i16", "f32": "float", "f64": "double",
}  # fmt: skip
# Precision in bits and least exponent of each float format.
_FORMATS = {"f16": (11, -14), "bf16": (8, -126), "f32": (24, -126), "f64": (53, -1022)}


def register_type(dtype: DType) -> str:
    """Element type in registers: bool is i1, packed fields are i8, f16 and bf16 are their bits."""
    return _REGISTER.get(dtype.name) or f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """Element type in memory: bool is a byte."""
    return "i8" if dtype.kind == "bool" else register_type(dtype)


# By the dtype's name: hashing the dataclass itself showed in profiles of the emitter.
_TYPE_TEXTS: dict[tuple[str, int], str] = {}


def type_text(dtype: DType, lanes: int) -> str:
    """Register type of a value with `lanes` lanes (0: scalar)."""
    key = (dtype.name, lanes)
    found = _TYPE_TEXTS.get(key)
    if found is None:
        element = register_type(dtype)
        found = _TYPE_TEXTS[key] = f"<{lanes} x {element}>" if lanes else element
    return found


def suffix(dtype: DType, lanes: int) -> str:
    """The type's spelling in the name of an overloaded intrinsic."""
    element = register_type(dtype)
    element = {"float": "f32", "double": "f64"}.get(element, element)
    return f"v{lanes}{element}" if lanes else element


def literal(value: Fraction | int | float, dtype: DType) -> str:
    """The scalar constant as LLVM text, rounded to the dtype (integers wrap)."""
    if value == 0 and math.copysign(1.0, value) < 0 and dtype.is_float:
        return _float_text(-0.0, dtype)  # equal to 0, so no key of a cache
    return _literal(value, dtype)


def scaling_call(row: Scaling, significand: Value, power: Value) -> tuple[str, str]:
    """The call of a target's instruction for significand·2^power in all lanes, to nearest, and its declaration."""
    kind, mask = type_text(row.dtype, row.lanes), f"i{row.lanes}"
    operands = f"{kind} {significand.text}, {kind} {power.text}, {kind} zeroinitializer, {mask} -1, i32 4"
    declaration = f"declare {kind} @{row.instruction}({kind}, {kind}, {kind}, {mask}, i32 immarg)"
    return f"call {kind} @{row.instruction}({operands})", declaration


@lru_cache(maxsize=4096)
def _literal(value: Fraction | int | float, dtype: DType) -> str:
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype.is_float:
        return _float_text(rounded(value, dtype), dtype)
    if isinstance(value, float) or (isinstance(value, Fraction) and value.denominator != 1):
        raise CompileError(f"expected an integer constant of {dtype}, received {value}")
    bits = max(8, dtype.bits)
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if dtype.kind == "int" and wrapped >> (bits - 1) else wrapped)


def rounded(value: Fraction | int | float, dtype: DType) -> float:
    """The nearest value of a float dtype (ties to even, overflow to infinity), as a Python float."""
    if isinstance(value, float) and (not math.isfinite(value) or value == 0.0):
        return value
    exact = Fraction(value)
    if not exact:
        return 0.0
    precision, least = _FORMATS[dtype.name]
    exponent = max(_exponent(exact), least)
    quantum = exponent - precision + 1
    steps = round(exact / Fraction(2) ** quantum)
    if abs(steps) * Fraction(2) ** quantum >= Fraction(2) ** (2 - least):
        return math.copysign(math.inf, steps)
    return math.ldexp(steps, quantum)


def _exponent(value: Fraction) -> int:
    """floor(log2 |value|)."""
    guess = abs(value.numerator).bit_length() - value.denominator.bit_length()
    return guess if abs(value) >= Fraction(2) ** guess else guess - 1


def _float_text(value: float, dtype: DType) -> str:
    if dtype.bits == 16:
        return str(int(np.array(value).astype(dtype.numpy).view(np.uint16)))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
