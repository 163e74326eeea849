"""The narrow interface between vector math and whoever emits instructions.

Vector math is written once against `Assembler`; the tile emitter implements it with value numbering, tests with
straight-line text.  A `Value` is an SSA name (or literal) with a dtype and a lane count (0 for a scalar).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from snell.dtypes import DType
from snell.targets import Lookup, Scaling

__all__ = ["Assembler", "Value"]


@dataclass(frozen=True, slots=True)
class Value:
    """An LLVM value: text usable as an operand, its element type, and its lanes (0: scalar)."""

    text: str
    dtype: DType
    lanes: int = 0


class Assembler(Protocol):
    """Typed instructions over values of equal lane count; `dtype` bool is i1."""

    def constant(self, value: float, dtype: DType, lanes: int) -> Value:
        """A literal, splatted over `lanes`; floats are rounded to the dtype, bit-exactly representable in the text."""
        ...

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        """`fadd fsub fmul fdiv frem add sub mul and or xor shl lshr ashr sdiv udiv srem urem`."""
        ...

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a*b + c, rounded once (never two roundings)."""
        ...

    def compare(self, opcode: str, predicate: str, a: Value, b: Value) -> Value:
        """`fcmp`/`icmp` with an LLVM predicate; bool result."""
        ...

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """a where condition else b, per lane."""
        ...

    def convert(self, opcode: str, a: Value, dtype: DType) -> Value:
        """`bitcast sitofp uitofp fptosi fptoui fpext fptrunc zext sext trunc` to elements of `dtype`."""
        ...

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        """An overloaded LLVM intrinsic by stem: `llvm.sqrt llvm.fabs llvm.roundeven llvm.floor llvm.copysign …`."""
        ...

    def scaled(self, row: Scaling, significand: Value, power: Value) -> Value:
        """significand·2^power by an instruction of the target, for values of the row's dtype and lanes."""
        ...

    def looked_up(self, row: Lookup | None, table: Sequence[float], dtype: DType, index: Value) -> Value:
        """`table[index mod len(table)]` in each lane, by an instruction of the target if one is given; see `lookup`."""
        ...
