"""Scalar operations with snell's semantics, on values of equal lanes: wrapping, Python's signs, NaN propagation."""

from __future__ import annotations

from snell.codegen.assembler import Value
from snell.codegen.conversion import cast, widened
from snell.codegen.instructions import Instructions
from snell.dtypes import bool_, f32, f64
from snell.errors import CompileError

__all__ = [
    "add", "divide", "equal", "floor_divide", "less_than", "maximum", "modulo", "multiply", "negate_bool", "reciprocal",
    "square_root", "subtract",
]  # fmt: skip

# Steps of 53 bits that cover the greatest quotient of two f32 (2**277).
_MOD_STEPS = 6


def add(code: Instructions, a: Value, b: Value) -> Value:
    return _float_or_integer(code, "fadd", "add", a, b)


def subtract(code: Instructions, a: Value, b: Value) -> Value:
    return _float_or_integer(code, "fsub", "sub", a, b)


def multiply(code: Instructions, a: Value, b: Value) -> Value:
    """A bool operand selects, whatever the other holds."""
    if a.dtype == bool_ and b.dtype == bool_:
        return code.binary("and", a, b)
    if a.dtype == bool_:
        return code.select(a, b, code.constant(0, b.dtype, b.lanes))
    if b.dtype == bool_:
        return code.select(b, a, code.constant(0, a.dtype, a.lanes))
    return _float_or_integer(code, "fmul", "mul", a, b)


def divide(code: Instructions, a: Value, b: Value) -> Value:
    if not a.dtype.is_float:
        raise CompileError(f"Divide expected floats, received {a.dtype}; integers use FloorDivide")
    return _float_or_integer(code, "fdiv", "", a, b)


def reciprocal(code: Instructions, a: Value) -> Value:
    wide = widened(code, a)
    return cast(code, code.binary("fdiv", code.constant(1, wide.dtype, wide.lanes), wide), a.dtype)


def square_root(code: Instructions, a: Value) -> Value:
    return cast(code, code.intrinsic("llvm.sqrt", widened(code, a)), a.dtype)


def _float_or_integer(code: Instructions, float_opcode: str, integer_opcode: str, a: Value, b: Value) -> Value:
    if not a.dtype.is_float:
        return code.binary(integer_opcode, a, b)
    result = code.binary(float_opcode, widened(code, a), widened(code, b))
    return cast(code, result, a.dtype)


def maximum(code: Instructions, a: Value, b: Value) -> Value:
    """The greater of the two, NaN where either is."""
    if not a.dtype.is_float:
        predicate = "sgt" if a.dtype.kind == "int" else "ugt"
        return code.select(code.compare("icmp", predicate, a, b), a, b)
    x, y = widened(code, a), widened(code, b)
    # `a > b ? a : b` is one instruction and keeps a NaN of b; a NaN of a needs the second select.
    greater = code.select(code.compare("fcmp", "ogt", x, y), x, y)
    return cast(code, code.select(code.compare("fcmp", "uno", x, x), x, greater), a.dtype)


def less_than(code: Instructions, a: Value, b: Value) -> Value:
    if a.dtype == bool_:
        return code.binary("and", negate_bool(code, a), b)
    if a.dtype.is_float:
        return code.compare("fcmp", "olt", widened(code, a), widened(code, b))
    return code.compare("icmp", "slt" if a.dtype.kind == "int" else "ult", a, b)


def equal(code: Instructions, a: Value, b: Value) -> Value:
    if a.dtype.is_float:
        return code.compare("fcmp", "oeq", widened(code, a), widened(code, b))
    return code.compare("icmp", "eq", a, b)


def negate_bool(code: Instructions, a: Value) -> Value:
    return code.binary("xor", a, code.constant(1, bool_, a.lanes))


def modulo(code: Instructions, a: Value, b: Value) -> Value:
    """Remainder with the divisor's sign; integer mod 0 is 0."""
    if not a.dtype.is_float:
        return _integer_modulo(code, a, b)
    if b.text == code.constant(1, b.dtype, b.lanes).text:
        return _fraction(code, a)
    wide = cast(code, a, f64), cast(code, b, f64)
    if a.dtype == f64:
        return _with_divisor_sign(code, code.binary("frem", *wide), wide[1])
    return cast(code, cast(code, _single_modulo(code, *wide), f32), a.dtype)


def _fraction(code: Instructions, a: Value) -> Value:
    """a mod 1, which every floor asks for: rounded once, as from an exact remainder; +0 for whole numbers."""
    wide = a if a.dtype in (f32, f64) else cast(code, a, f32)
    return cast(code, code.binary("fsub", wide, code.intrinsic("llvm.floor", wide)), a.dtype)


def _single_modulo(code: Instructions, a: Value, b: Value) -> Value:
    """Exact remainder of f32 operands held in f64: `r - q·b` is exact for q = round(r/b), so six steps suffice."""
    rest = a
    for _ in range(_MOD_STEPS):
        quotient = code.intrinsic("llvm.trunc", code.binary("fdiv", rest, b))
        rest = code.fma(_negated(code, quotient), b, rest)
    infinite = code.constant(float("inf"), f64, a.lanes)
    unbounded = code.compare("fcmp", "oeq", code.intrinsic("llvm.fabs", b), infinite)
    finite = code.compare("fcmp", "olt", code.intrinsic("llvm.fabs", a), infinite)
    rest = code.select(code.binary("and", unbounded, finite), a, rest)
    return _with_divisor_sign(code, rest, b)


def _negated(code: Instructions, a: Value) -> Value:
    return code.binary("fsub", code.constant(-0.0, a.dtype, a.lanes), a)


def _with_divisor_sign(code: Instructions, rest: Value, divisor: Value) -> Value:
    zero = code.constant(0.0, rest.dtype, rest.lanes)
    negative = code.compare("fcmp", "olt", rest, zero)
    below = code.compare("fcmp", "olt", divisor, zero)
    opposite = code.binary("xor", negative, below)
    nonzero = code.compare("fcmp", "one", rest, zero)
    moved = code.select(code.binary("and", opposite, nonzero), code.binary("fadd", rest, divisor), rest)
    signed_zero = code.intrinsic("llvm.copysign", zero, divisor)
    return code.select(code.compare("fcmp", "oeq", rest, zero), signed_zero, moved)


def _safe_divisor(code: Instructions, b: Value) -> Value:
    """The divisor with 0 (and -1, whose quotient may overflow) replaced by 1."""
    one, zero = code.constant(1, b.dtype, b.lanes), code.constant(0, b.dtype, b.lanes)
    bad = code.compare("icmp", "eq", b, zero)
    if b.dtype.kind == "int":
        bad = code.binary("or", bad, code.compare("icmp", "eq", b, code.constant(-1, b.dtype, b.lanes)))
    return code.select(bad, one, b)


def _integer_modulo(code: Instructions, a: Value, b: Value) -> Value:
    safe = _safe_divisor(code, b)
    if a.dtype.kind == "uint":
        return code.binary("urem", a, safe)
    rest = code.binary("srem", a, safe)
    return code.select(_crosses_zero(code, rest, safe), code.binary("add", rest, safe), rest)


def _crosses_zero(code: Instructions, rest: Value, divisor: Value) -> Value:
    zero = code.constant(0, rest.dtype, rest.lanes)
    nonzero = code.compare("icmp", "ne", rest, zero)
    opposite = code.compare("icmp", "slt", code.binary("xor", rest, divisor), zero)
    return code.binary("and", nonzero, opposite)


def floor_divide(code: Instructions, a: Value, b: Value) -> Value:
    """⌊a / b⌋ of integers; 0 where b is 0; INT_MIN / -1 wraps."""
    if a.dtype.is_float:
        raise CompileError(f"FloorDivide expected integers, received {a.dtype}; floats use Divide and Mod")
    zero, safe = code.constant(0, a.dtype, a.lanes), _safe_divisor(code, b)
    is_zero = code.compare("icmp", "eq", b, zero)
    if a.dtype.kind == "uint":
        return code.select(is_zero, zero, code.binary("udiv", a, safe))
    quotient = code.binary("sdiv", a, safe)
    rest = code.binary("sub", a, code.binary("mul", quotient, safe))
    lower = code.convert("sext", _crosses_zero(code, rest, safe), a.dtype)
    quotient = code.binary("add", quotient, lower)
    minus = code.compare("icmp", "eq", b, code.constant(-1, b.dtype, b.lanes))
    quotient = code.select(minus, code.binary("sub", zero, a), quotient)
    return code.select(is_zero, zero, quotient)
