"""Typed instructions over value numbering: the emitter's `Assembler`, plus splats and scalar index arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction

from snell.codegen.assembler import Value
from snell.codegen.literals import literal, register_type, scaling_call, suffix, type_text
from snell.codegen.lookup import Emission, looked_up
from snell.codegen.scope import Scopes
from snell.dtypes import DType, bool_, f16, f32, i64
from snell.targets import Lookup, Scaling, Target

__all__ = ["Instructions"]

Scalar = int | str

_FOLDS: dict[str, Callable[[int, int], int]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


class Instructions:
    """Implements `codegen.assembler.Assembler`; operands of one instruction have equal lanes (see `join`)."""

    def __init__(self, scopes: Scopes, target: Target) -> None:
        self.scopes = scopes
        self.target = target

    # -- the Assembler protocol

    def constant(self, value: float | Fraction, dtype: DType, lanes: int) -> Value:
        text = literal(value, dtype)
        return Value(f"splat ({register_type(dtype)} {text})" if lanes else text, dtype, lanes)

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        text = f"{opcode} {type_text(a.dtype, a.lanes)} {a.text}, {b.text}"
        return Value(self.scopes.emit(text, a.text, b.text), a.dtype, a.lanes)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.intrinsic("llvm.fma", a, b, c)

    def compare(self, opcode: str, predicate: str, a: Value, b: Value) -> Value:
        text = f"{opcode} {predicate} {type_text(a.dtype, a.lanes)} {a.text}, {b.text}"
        return Value(self.scopes.emit(text, a.text, b.text), bool_, a.lanes)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        kind = type_text(a.dtype, a.lanes)
        text = f"select {type_text(bool_, condition.lanes)} {condition.text}, {kind} {a.text}, {kind} {b.text}"
        return Value(self.scopes.emit(text, condition.text, a.text, b.text), a.dtype, a.lanes)

    def convert(self, opcode: str, a: Value, dtype: DType) -> Value:
        text = f"{opcode} {type_text(a.dtype, a.lanes)} {a.text} to {type_text(dtype, a.lanes)}"
        return Value(self.scopes.emit(text, a.text), dtype, a.lanes)

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        first = arguments[0]
        return self.call(f"{name}.{suffix(first.dtype, first.lanes)}", first.dtype, first.lanes, arguments)

    def scaled(self, row: Scaling, significand: Value, power: Value) -> Value:
        text, declaration = scaling_call(row, significand, power)
        self.scopes.declarations.add(declaration)
        return Value(self.scopes.emit(text, significand.text, power.text), row.dtype, row.lanes)

    def looked_up(self, row: Lookup | None, table: Sequence[float], dtype: DType, index: Value) -> Value:
        return looked_up(Emission(self.scopes.emit, self.scopes.declarations.add), row, table, dtype, index)

    # -- beyond the protocol

    def extend_half(self, a: Value) -> Value:
        """f16 → f32 by the processor's instruction."""
        half = "half" if not a.lanes else f"<{a.lanes} x half>"
        bits = self.scopes.emit(f"bitcast {type_text(a.dtype, a.lanes)} {a.text} to {half}", a.text)
        return Value(self.scopes.emit(f"fpext {half} {bits} to {type_text(f32, a.lanes)}", bits), f32, a.lanes)

    def truncate_half(self, a: Value) -> Value:
        """f32 → f16 by the processor's instruction, to nearest even."""
        half = "half" if not a.lanes else f"<{a.lanes} x half>"
        value = self.scopes.emit(f"fptrunc {type_text(f32, a.lanes)} {a.text} to {half}", a.text)
        return Value(self.scopes.emit(f"bitcast {half} {value} to {type_text(f16, a.lanes)}", value), f16, a.lanes)

    def call(self, name: str, dtype: DType, lanes: int, arguments: Sequence[Value]) -> Value:
        """A pure intrinsic by its full name, declared on first use."""
        result = type_text(dtype, lanes)
        kinds = [type_text(a.dtype, a.lanes) for a in arguments]
        self.scopes.declarations.add(f"declare {result} @{name}({', '.join(kinds)})")
        operands = ", ".join(f"{kind} {a.text}" for kind, a in zip(kinds, arguments, strict=True))
        text = f"call {result} @{name}({operands})"
        return Value(self.scopes.emit(text, *(a.text for a in arguments)), dtype, lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        """The scalar in every lane; a value that has the lanes already is returned as it is."""
        if value.lanes == lanes:
            return value
        element = register_type(value.dtype)
        if not value.text.startswith("%"):
            return Value(f"splat ({element} {value.text})", value.dtype, lanes)
        vector = f"<{lanes} x {element}>"
        registers = max(1.0, lanes * value.dtype.bits / self.target.vector_bits)
        first = self.scopes.emit_limited(
            f"insertelement {vector} poison, {element} {value.text}, i64 0", registers, value.text
        )
        text = f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer"
        return Value(self.scopes.emit(text, first), value.dtype, lanes)

    def join(self, *values: Value) -> tuple[Value, ...]:
        """The values with equal lanes: scalars beside vectors are splatted."""
        lanes = max(value.lanes for value in values)
        return values if all(value.lanes == lanes for value in values) else tuple(self.splat(v, lanes) for v in values)

    def integer(self, opcode: str, a: Scalar, b: Scalar) -> Scalar:
        """`add sub mul` of i64 scalars, folded where the operands are known."""
        if isinstance(a, int) and isinstance(b, int):
            return _FOLDS[opcode](a, b)
        if (b == 0 and opcode in ("add", "sub")) or (b == 1 and opcode == "mul"):
            return a
        if (a == 0 and opcode == "add") or (a == 1 and opcode == "mul"):
            return b
        if opcode == "mul" and (a == 0 or b == 0):
            return 0
        return self.scopes.emit(f"{opcode} i64 {a}, {b}", a, b)

    def clamp(self, opcode: str, a: Scalar, b: Scalar) -> Scalar:
        """`smin smax` of i64 scalars."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b) if opcode == "smin" else max(a, b)
        first, second = (a, b) if isinstance(a, str) else (b, a)
        return self.call(f"llvm.{opcode}.i64", i64, 0, (Value(str(first), i64), Value(str(second), i64))).text

    def shuffle(self, a: Value, b: Value | None, lanes: Sequence[int]) -> Value:
        """Lanes of `a` then `b` in the order given."""
        kind = type_text(a.dtype, a.lanes)
        order = ", ".join(f"i32 {k}" for k in lanes)
        other = b.text if b is not None else "poison"
        text = f"shufflevector {kind} {a.text}, {kind} {other}, <{len(lanes)} x i32> <{order}>"
        return Value(self.scopes.emit(text, a.text, other), a.dtype, len(lanes))

    def extract(self, a: Value, lane: int) -> Value:
        text = f"extractelement {type_text(a.dtype, a.lanes)} {a.text}, i64 {lane}"
        return Value(self.scopes.emit(text, a.text), a.dtype)

    def insert(self, a: Value, element: Value, lane: int) -> Value:
        kind = type_text(a.dtype, a.lanes)
        text = f"insertelement {kind} {a.text}, {register_type(a.dtype)} {element.text}, i64 {lane}"
        return Value(self.scopes.emit(text, a.text, element.text), a.dtype, a.lanes)

    def steps(self, lanes: int, stride: int, dtype: DType) -> Value:
        """The vector constant 0, stride, 2·stride, …"""
        kind = register_type(dtype)
        return Value(f"<{', '.join(f'{kind} {k * stride}' for k in range(lanes))}>", dtype, lanes)
