"""Shorthand over an `Assembler` for one float dtype and lane count: the language the functions are written in.

Integers are of the float's own width, so that a value and its bits have the same lanes.  Rounding to an integer and
conversions use the bits of a sum with a power of two instead of `fptosi`, which is undefined for NaN and slow for i64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from snell.codegen.assembler import Assembler, Value
from snell.codegen.vector_math.coefficients import Coefficients
from snell.dtypes import DType, f32, f64, i32, i64
from snell.targets import Lookup, Scaling

__all__ = ["Arithmetic", "Format", "Operand"]

Operand = Value | float


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: stored bits of the significand, exponent bias, integer type of its width."""

    mantissa: int
    bias: int
    integer: DType

    @property
    def sign_bit(self) -> int:
        return -1 << (self.integer.bits - 1)

    @property
    def rounding(self) -> float:
        """1.5·2^mantissa: adding it leaves the nearest integer in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa


_FORMATS: Final = {f32: Format(23, 127, i32), f64: Format(52, 1023, i64)}


class Arithmetic:
    """Operators over `Value`s of `dtype` and `lanes`; Python numbers become splatted literals."""

    __slots__ = ("_lookup", "_scaling", "assembler", "dtype", "format", "lanes")

    def __init__(
        self,
        assembler: Assembler,
        dtype: DType,
        lanes: int,
        scalings: Sequence[Scaling] = (),
        lookups: Sequence[Lookup] = (),
    ) -> None:
        self.assembler = assembler
        self.dtype = dtype
        self.lanes = lanes
        self.format = _FORMATS[dtype]
        self._scaling = next((row for row in scalings if (row.dtype, row.lanes) == (dtype, lanes)), None)
        self._lookup = next((row for row in lookups if row.dtype == dtype), None)

    def value(self, operand: Operand) -> Value:
        """The operand, a literal splatted."""
        return operand if isinstance(operand, Value) else self.assembler.constant(operand, self.dtype, self.lanes)

    def integer(self, value: int) -> Value:
        """An integer literal of the float's width."""
        return self.assembler.constant(value, self.format.integer, self.lanes)

    def add(self, a: Operand, b: Operand) -> Value:
        return self.assembler.binary("fadd", self.value(a), self.value(b))

    def sub(self, a: Operand, b: Operand) -> Value:
        return self.assembler.binary("fsub", self.value(a), self.value(b))

    def mul(self, a: Operand, b: Operand) -> Value:
        return self.assembler.binary("fmul", self.value(a), self.value(b))

    def div(self, a: Operand, b: Operand) -> Value:
        return self.assembler.binary("fdiv", self.value(a), self.value(b))

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a*b + c, rounded once."""
        return self.assembler.fma(self.value(a), self.value(b), self.value(c))

    def sqrt(self, a: Value) -> Value:
        return self.assembler.intrinsic("llvm.sqrt", a)

    def less(self, a: Operand, b: Operand) -> Value:
        """a < b, false on NaN."""
        return self.assembler.compare("fcmp", "olt", self.value(a), self.value(b))

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """a where the condition holds, else b."""
        return self.assembler.select(condition, self.value(a), self.value(b))

    def at_most(self, x: Value, bound: float) -> Value:
        """min(x, bound), NaN kept."""
        return self.select(self.less(bound, x), bound, x)

    def at_least(self, x: Value, bound: float) -> Value:
        """max(x, bound), NaN kept."""
        return self.select(self.less(x, bound), bound, x)

    def scaled(self, significand: Value, power: Value) -> Value | None:
        """significand·2^power for a whole number of any size, rounded once; None where no instruction does that."""
        return None if self._scaling is None else self.assembler.scaled(self._scaling, significand, power)

    def looked_up(self, table: Sequence[float], index: Value) -> Value:
        """The entry of a table of 2^n numbers that the low bits of an integer name."""
        return self.assembler.looked_up(self._lookup, table, self.dtype, index)

    def magnitude(self, x: Value) -> Value:
        return self.assembler.intrinsic("llvm.fabs", x)

    def with_sign_of(self, magnitude: Value, sign: Value) -> Value:
        return self.assembler.intrinsic("llvm.copysign", magnitude, sign)

    def is_negative(self, x: Value) -> Value:
        """The sign bit, -0 and negative NaN included."""
        return self.assembler.compare("icmp", "slt", self.bits(x), self.integer(0))

    def bits(self, x: Value) -> Value:
        """The bits of a float as an integer."""
        return self.assembler.convert("bitcast", x, self.format.integer)

    def from_bits(self, bits: Value) -> Value:
        """The float with these bits."""
        return self.assembler.convert("bitcast", bits, self.dtype)

    def integer_op(self, opcode: str, a: Value, b: Value | int) -> Value:
        """An integer instruction; a Python integer becomes a literal."""
        return self.assembler.binary(opcode, a, b if isinstance(b, Value) else self.integer(b))

    def flip_sign(self, x: Value, sign_bits: Value) -> Value:
        """x with its sign inverted where the top bit of `sign_bits` is set."""
        top = self.integer_op("and", sign_bits, self.format.sign_bit)
        return self.from_bits(self.integer_op("xor", self.bits(x), top))

    def polynomial(self, x: Value, table: Coefficients) -> Value:
        """The polynomial of this dtype by Horner's scheme: independent vectors hide its latency."""
        return self.horner(x, table[self.dtype.name])

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        result = self.value(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            result = self.fma(result, x, coefficient)
        return result
