"""Casts between element types, with one rounding to nearest even and saturation, on targets with and without support.

f16 goes through the processor where it has the instructions, through integers else; bf16 always goes through integers,
since `vcvtneps2bf16` flushes subnormals.  Wider sources are first rounded to odd, so that two roundings equal one.
"""

from __future__ import annotations

from snell.codegen.assembler import Value
from snell.codegen.instructions import Instructions
from snell.dtypes import DType, bf16, f16, f32, f64, i32, u16, u32

__all__ = ["cast", "widened"]


def cast(code: Instructions, value: Value, dtype: DType) -> Value:
    """`value` as `dtype`: float→int truncates and saturates with NaN→0, int→int wraps, anything→bool is `!= 0`."""
    source = value.dtype
    if source == dtype:
        return value
    if dtype.kind == "bool":
        return _to_bool(code, value)
    if source.is_float and dtype.is_float:
        return _float_to_float(code, value, dtype)
    if source.is_float:
        return _float_to_integer(code, value, dtype)
    if dtype.is_float:
        return _integer_to_float(code, value, dtype)
    return _integer_to_integer(code, value, dtype)


def widened(code: Instructions, value: Value) -> Value:
    """Half-precision floats as f32, everything else as it is."""
    return cast(code, value, f32) if value.dtype in (f16, bf16) else value


def _to_bool(code: Instructions, value: Value) -> Value:
    if value.dtype in (f16, bf16):
        value = cast(code, value, f32)
    zero = code.constant(0, value.dtype, value.lanes)
    return code.compare("fcmp", "une", value, zero) if value.dtype.is_float else code.compare("icmp", "ne", value, zero)


def _integer_to_integer(code: Instructions, value: Value, dtype: DType) -> Value:
    bits = 1 if value.dtype.kind == "bool" else max(8, value.dtype.bits)
    if bits == dtype.bits:
        return Value(value.text, dtype, value.lanes)
    if bits > dtype.bits:
        return code.convert("trunc", value, dtype)
    return code.convert("sext" if value.dtype.kind == "int" else "zext", value, dtype)


def _integer_to_float(code: Instructions, value: Value, dtype: DType) -> Value:
    source = value.dtype
    if dtype.bits == 16:
        return cast(code, cast(code, value, f32 if source.bits <= 16 else f64), dtype)
    # Unsigned bytes and shorts convert faster as signed words (`vpmovzx`, `vcvtdq2ps`).
    if source.bits <= 16:
        return code.convert("sitofp", _integer_to_integer(code, value, i32), dtype)
    return code.convert("sitofp" if source.kind == "int" else "uitofp", value, dtype)


def _float_to_integer(code: Instructions, value: Value, dtype: DType) -> Value:
    value = widened(code, value)
    stem = "llvm.fptosi.sat" if dtype.kind == "int" else "llvm.fptoui.sat"
    lanes = f"v{value.lanes}" if value.lanes else ""
    name = f"{stem}.{lanes}i{dtype.bits}.{lanes}f{value.dtype.bits}"
    return code.call(name, dtype, value.lanes, (value,))


def _float_to_float(code: Instructions, value: Value, dtype: DType) -> Value:
    source = value.dtype
    if source.bits == 16:
        wide = _from_f16(code, value) if source == f16 else _from_bf16(code, value)
        return cast(code, wide, dtype)
    if dtype.bits == 16:
        single = _round_to_odd(code, value) if source == f64 else value
        return _to_f16(code, single) if dtype == f16 else _to_bf16(code, single)
    return code.convert("fpext" if dtype.bits > source.bits else "fptrunc", value, dtype)


def _round_to_odd(code: Instructions, value: Value) -> Value:
    """f64 → f32 toward zero with the last bit set when inexact (Boldo and Melquiond, 2008)."""
    nearest = code.convert("fptrunc", value, f32)
    back = code.convert("fpext", nearest, f64)
    size, back_size = code.intrinsic("llvm.fabs", value), code.intrinsic("llvm.fabs", back)
    bits = code.convert("bitcast", nearest, i32)
    above = code.convert("sext", code.compare("fcmp", "ogt", back_size, size), i32)
    inexact = code.convert("zext", code.compare("fcmp", "one", back, value), i32)
    return code.convert("bitcast", code.binary("or", code.binary("add", bits, above), inexact), f32)


def _from_bf16(code: Instructions, value: Value) -> Value:
    bits = code.convert("zext", value, i32)
    return code.convert("bitcast", code.binary("shl", bits, code.constant(16, i32, value.lanes)), f32)


def _to_bf16(code: Instructions, value: Value) -> Value:
    lanes = value.lanes

    def constant(number: int) -> Value:
        return code.constant(number, u32, lanes)

    bits = code.convert("bitcast", value, u32)
    last = code.binary("and", code.binary("lshr", bits, constant(16)), constant(1))
    up = code.binary("add", bits, code.binary("add", last, constant(0x7FFF)))
    quiet = code.binary("or", bits, constant(0x400000))
    chosen = code.select(code.compare("fcmp", "uno", value, value), quiet, up)
    top = code.convert("trunc", code.binary("lshr", chosen, constant(16)), u16)
    return Value(top.text, bf16, lanes)


def _from_f16(code: Instructions, value: Value) -> Value:
    if code.target.has_f16c:
        return code.extend_half(value)
    lanes = value.lanes

    def constant(number: int) -> Value:
        return code.constant(number, u32, lanes)

    bits = code.convert("zext", value, u32)
    sign = code.binary("shl", code.binary("and", bits, constant(0x8000)), constant(16))
    body = code.binary("shl", code.binary("and", bits, constant(0x7FFF)), constant(13))
    # Exponent and mantissa read as an f32, times 2**112, are the value; subnormals come out normal.
    scaled = code.binary("fmul", code.convert("bitcast", body, f32), code.constant(2.0**112, f32, lanes))
    special = code.compare("icmp", "uge", body, constant(0x7C00 << 13))
    infinite = code.binary("or", body, constant(0x7F800000))
    size = code.select(special, infinite, code.convert("bitcast", scaled, u32))
    return code.convert("bitcast", code.binary("or", size, sign), f32)


def _to_f16(code: Instructions, value: Value) -> Value:
    if code.target.has_f16c:
        return code.truncate_half(value)
    lanes = value.lanes

    def constant(number: int) -> Value:
        return code.constant(number, u32, lanes)

    bits = code.convert("bitcast", value, u32)
    sign = code.binary("lshr", code.binary("and", bits, constant(0x80000000)), constant(16))
    size = code.binary("and", bits, constant(0x7FFFFFFF))
    last = code.binary("and", code.binary("lshr", size, constant(13)), constant(1))
    rebiased = code.binary("sub", size, constant(112 << 23))
    normal = code.binary("lshr", code.binary("add", rebiased, code.binary("add", last, constant(0xFFF))), constant(13))
    # Adding 0.5 aligns a small value so that the addition itself rounds it to a multiple of 2**-24.
    half = code.constant(0.5, f32, lanes)
    shifted = code.binary("fadd", code.convert("bitcast", size, f32), half)
    small = code.binary("sub", code.convert("bitcast", shifted, u32), constant(0x3F000000))
    finite = code.select(code.compare("icmp", "ult", size, constant(113 << 23)), small, normal)
    mantissa = code.binary("and", code.binary("lshr", size, constant(13)), constant(0x3FF))
    quiet = code.binary("or", mantissa, constant(0x7E00))
    large = code.select(code.compare("icmp", "ugt", size, constant(0x7F800000)), quiet, constant(0x7C00))
    chosen = code.select(code.compare("icmp", "uge", size, constant(0x477FF000)), large, finite)
    return Value(code.convert("trunc", code.binary("or", chosen, sign), u16).text, f16, lanes)
