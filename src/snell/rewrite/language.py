"""The e-graph's language: its declarations, and the translation of terms into it.

Loads, index values and constants without a rational value are opaque atoms, numbered per region, with their free axes
and dtype as facts.  Numbers carry an exact rational and a dtype.  A product with a number is a `Scale`, a difference is
`a + (-1)·b`, a quotient `a·Recip(b)`, a select-else the sum of two selections: one spelling inside, idioms recovered by
rules.  Axes, dtypes and the operations rules do not look into are small integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from snell import dtypes
from snell.dtypes import DType
from snell.graph.primitives import Add, Exp2, LessThan, Log2, Mod, Mul, Op, Recip, ScalarFunction, Sin, Sqrt
from snell.rewrite import term as t
from snell.rewrite.term import Term
from snell.symbolic import Axis, as_expr

__all__ = [
    "BOOL", "CONSTRUCTORS", "DECLARATIONS", "DTYPES", "EXP", "EXP2", "I32", "Encoding", "encode", "rational",
]  # fmt: skip

DTYPES: tuple[DType, ...] = dtypes.ALL
_DTYPE_CODE = {dtype: k for k, dtype in enumerate(DTYPES)}
I32 = _DTYPE_CODE[dtypes.i32]
BOOL = _DTYPE_CODE[dtypes.bool_]

# Operations without a constructor of their own; the first have fixed codes because rules name them.
UNARY: tuple[Op, ...] = (Exp2(), ScalarFunction("exp"), Log2(), Sqrt(), Sin())
EXP2, EXP, LOG2, SQRT = 0, 1, 2, 3
BINARY: tuple[Op, ...] = (Mod(), t.FloorDivide())

# Constructor -> how many of its arguments are terms (they come last).
CONSTRUCTORS = {
    "Atom": 0, "Number": 0, "Scale": 1, "Cast": 1, "Unary": 1, "Recip": 1, "Not": 1, "Sum": 1, "Max": 1, "Add": 2,
    "Mul": 2, "Subtract": 2, "Divide": 2, "LessThan": 2, "Equal": 2, "And": 2, "Maximum": 2, "Select": 2, "Binary": 2,
    "SelectElse": 3,
}  # fmt: skip
_PAYLOAD = {
    "Atom": "i64 i64 Axes", "Number": "BigRat i64", "Scale": "BigRat", "Cast": "i64", "Unary": "i64", "Binary": "i64",
    "Sum": "Axes", "Max": "Axes",
}  # fmt: skip


def rational(value: Fraction | int) -> str:
    """The egglog literal of an exact rational."""
    exact = Fraction(value)
    return f"(bigrat {_integer(exact.numerator)} {_integer(exact.denominator)})"


def _integer(value: int) -> str:
    # A literal is an i64; beyond it only the decimal text is exact.
    return f"(bigint {value})" if -(1 << 62) < value < 1 << 62 else f'(from-string "{value}")'


def axis_set(codes: Iterable[int]) -> str:
    listed = " ".join(str(code) for code in sorted(codes))
    return f"(set-of {listed})" if listed else "(set-empty)"


def _declarations() -> str:
    lines = ["(sort Axes (Set i64))", "(sort Term)"]
    for name, arity in CONSTRUCTORS.items():
        lines.append(f"(constructor {name} ({_PAYLOAD.get(name, '')}{' Term' * arity}) Term)")
    lines += [
        "(function free (Term) Axes :merge (set-intersect old new))",
        "(function dtype (Term) i64 :no-merge)",
        "(function kind (Term) i64 :merge (| old new))",
        "(relation float (i64))",
        "(relation integer (i64))",
        "(relation wide (i64))",
        "(relation exact-below (i64 BigRat))",
        "(relation holds (i64 BigRat))",
        "(relation monotone (i64))",
        "(relation ordered (Term))",
        "(relation plus-infinity (Term))",
        "(relation minus-infinity (Term))",
        "(relation extent (i64 BigRat))",
        "(relation run-time-extent (i64 i64 Term))",
        "(function possibly-empty () Axes :no-merge)",
        "(relation at-most (Axes BigRat))",
        "(relation elided (i64 i64 i64))",
        "(function root (i64) Term :no-merge)",
        "(ruleset insertion)",
        "(ruleset analysis)",
        "(ruleset algebra)",
    ]
    return "\n".join([*lines, _dtype_facts()])


def _dtype_facts() -> str:
    """What rules ask of a dtype: its class, the integers it holds exactly, the magnitude of an integer."""
    facts: list[str] = []
    for code, dtype in enumerate(DTYPES):
        if dtype.is_float:
            facts.append(f"(float {code})")
        if dtype.is_integer:
            facts.append(f"(integer {code})")
            low, high = dtype.range
            facts.append(f"(holds {code} {rational(max(int(high), -int(low)))})")
        # An f16 sum without its scale could overflow where it is stored: such sums are left as they are written.
        if dtype != dtypes.f16:
            facts.append(f"(wide {code})")
    for dtype, digits in ((dtypes.f32, 24), (dtypes.f64, 31)):
        facts.append(f"(exact-below {_DTYPE_CODE[dtype]} {rational(1 << digits)})")
    facts += [f"(monotone {code})" for code in (EXP2, EXP, LOG2, SQRT)]
    return "".join(facts)


DECLARATIONS = _declarations()


@dataclass(slots=True)
class Encoding:
    """A region on its way into the e-graph: program text, and what the numbers in it stand for."""

    atoms: list[Term] = field(default_factory=list[Term])
    axes: list[Axis] = field(default_factory=list[Axis])
    unary: list[Op] = field(default_factory=lambda: list(UNARY))
    binary: list[Op] = field(default_factory=lambda: list(BINARY))
    names: dict[Term, str] = field(default_factory=dict[Term, str])
    _lines: list[str] = field(default_factory=list[str])
    _axis_code: dict[Axis, int] = field(default_factory=dict[Axis, int])
    _atom_name: dict[Term, str] = field(default_factory=dict[Term, str])

    @property
    def text(self) -> str:
        # One rule without conditions: egglog compiles every top-level command by itself, which is three times slower.
        return f'(rule () ({" ".join(self._lines)}) :ruleset insertion :name "insert")(run-schedule (run insertion))'

    def axis(self, axis: Axis) -> int:
        code = self._axis_code.get(axis)
        if code is None:
            code = self._axis_code[axis] = len(self.axes)
            self.axes.append(axis)
        return code

    def axis_codes(self, axes: Iterable[Axis]) -> list[int]:
        return [self.axis(axis) for axis in axes]

    def say(self, line: str) -> None:
        self._lines.append(line)

    def bind(self, expression: str) -> str:
        """Give an expression a name."""
        name = f"n{len(self._lines)}"
        self._lines.append(f"(let {name} {expression})")
        return name

    def atom(self, item: Term) -> str:
        """An opaque leaf, which carries its dtype and free axes."""
        name = self._atom_name.get(item)
        if name is None:
            free = axis_set(self.axis_codes(sorted(item.free, key=lambda axis: axis.name)))
            name = self._atom_name[item] = self.bind(f"(Atom {len(self.atoms)} {_DTYPE_CODE[item.dtype]} {free})")
            self.atoms.append(item)
            if isinstance(item.op, t.Number) and item.op.value == item.op.value:
                self.say(f"({'plus' if item.op.value > 0 else 'minus'}-infinity {name})(ordered {name})")
        return name


def encode(roots: Sequence[Term]) -> Encoding:
    """Program text that inserts the roots and every fact about their leaves, axes and dtypes."""
    encoding = Encoding()
    reductions: dict[frozenset[Axis], None] = {}
    for item in _arguments_first(roots):
        if isinstance(item.op, t.Reduction):
            reductions[frozenset(item.op.axes)] = None
        encoding.names[item] = _encode_one(encoding, item)
    for k, root in enumerate(roots):
        encoding.say(f"(set (root {k}) {encoding.names[root]})")
    used = list(dict.fromkeys([*(item.dtype for item in encoding.names), dtypes.i32]))
    casts = [item for item in encoding.names if isinstance(item.op, t.Cast)]
    _axis_facts(encoding, used)
    if any(item.dtype.is_float and item.args[0].dtype.is_integer for item in casts):
        _count_facts(encoding, list(reductions))
    if casts:
        _cast_facts(encoding, used)
    return encoding


def _arguments_first(roots: Sequence[Term]) -> list[Term]:
    """Every distinct term, arguments first; what stands inside index expressions stays opaque."""
    order: dict[Term, None] = {}
    stack: list[tuple[Term, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        item, done = stack.pop()
        if done:
            order[item] = None
        elif item not in order:
            stack.append((item, True))
            stack.extend((arg, False) for arg in reversed(item.args))
    return list(order)


def _encode_one(encoding: Encoding, item: Term) -> str:
    """The name of a term whose arguments are encoded."""
    args = [encoding.names[arg] for arg in item.args]
    match item.op:
        case t.Number(value):
            if isinstance(value, float) or item.dtype.is_packed:
                return encoding.atom(item)
            return encoding.bind(f"(Number {rational(Fraction(value))} {_DTYPE_CODE[item.dtype]})")
        case t.Index() | t.Load():
            return encoding.atom(item)
        case t.Sum(axes) | t.Max(axes):
            codes = axis_set(encoding.axis_codes(axes))
            return encoding.bind(f"({type(item.op).__name__} {codes} {args[0]})")
        case _ if len(args) == 1:
            return _encode_unary(encoding, item, args[0])
        case _ if len(args) == 2:
            return _encode_binary(encoding, item, args[0], args[1])
        case t.SelectElse():
            condition, first, second = args
            return encoding.bind(f"(Add (Select {condition} {first}) (Select (Not {condition}) {second}))")
        case _:
            return encoding.atom(item)


def _encode_unary(encoding: Encoding, item: Term, argument: str) -> str:
    match item.op:
        case t.Cast():
            return encoding.bind(f"(Cast {_DTYPE_CODE[item.dtype]} {argument})")
        case Recip():
            return encoding.bind(f"(Recip {argument})")
        case t.Not():
            return encoding.bind(f"(Not {argument})")
        case Exp2() | Log2() | Sin() | Sqrt() | ScalarFunction():
            return encoding.bind(f"(Unary {_code(encoding.unary, item.op)} {argument})")
        case _:
            return encoding.atom(item)


def _encode_binary(encoding: Encoding, item: Term, a: str, b: str) -> str:
    match item.op:
        case Mul():
            return _encode_product(encoding, item, a, b)
        case LessThan():
            return _encode_less_than(encoding, item, a, b)
        case t.Subtract():
            return encoding.bind(f"(Add {a} (Scale {rational(-1)} {b}))")
        case t.Divide():
            return encoding.bind(f"(Mul {a} (Recip {b}))")
        case Add() | t.Equal() | t.And() | t.Maximum() | t.Select():
            return encoding.bind(f"({type(item.op).__name__} {a} {b})")
        case Mod() | t.FloorDivide():
            return encoding.bind(f"(Binary {_code(encoding.binary, item.op)} {a} {b})")
        case _:
            return encoding.atom(item)


def _encode_product(encoding: Encoding, item: Term, a: str, b: str) -> str:
    """A product: with a bool it selects, with a number it scales."""
    left, right = item.args
    if left.dtype == right.dtype == dtypes.bool_:
        return encoding.bind(f"(And {a} {b})")
    if left.dtype == dtypes.bool_:
        return encoding.bind(f"(Select {a} {b})")
    if right.dtype == dtypes.bool_:
        return encoding.bind(f"(Select {b} {a})")
    for factor, other in ((left, b), (right, a)):
        if isinstance(factor.op, t.Number) and not isinstance(factor.op.value, float):
            return encoding.bind(f"(Scale {rational(Fraction(factor.op.value))} {other})")
    return encoding.bind(f"(Mul {a} {b})")


def _encode_less_than(encoding: Encoding, item: Term, a: str, b: str) -> str:
    """A comparison; of bools it is `not a and b`."""
    left, right = item.args
    if left.dtype != dtypes.bool_:
        return encoding.bind(f"(LessThan {a} {b})")
    if isinstance(right.op, t.Number) and right.op.value == 1:
        return encoding.bind(f"(Not {a})")
    return encoding.bind(f"(And (Not {a}) {b})")


def _code(table: list[Any], op: Op) -> int:
    if op not in table:
        table.append(op)
    return table.index(op)


def _axis_facts(encoding: Encoding, used: list[DType]) -> None:
    """Extents: static ones as numbers, symbolic ones as an i64 term; and the axes that may be empty."""
    empty: list[int] = []
    for code, axis in enumerate(list(encoding.axes)):
        extent = as_expr(axis.extent)
        if extent.is_constant:
            encoding.say(f"(extent {code} {rational(extent.constant)})")
        else:
            size = encoding.atom(t.index(extent))
            for dtype in used:
                if dtype.kind != "bool" and not dtype.is_packed:
                    encoding.say(f"(run-time-extent {code} {_DTYPE_CODE[dtype]} {size})")
        if extent.bounds()[0] < 1:
            empty.append(code)
    encoding.say(f"(set (possibly-empty) {axis_set(empty)})")


def _count_facts(encoding: Encoding, reductions: list[frozenset[Axis]]) -> None:
    """How many terms a sum over a set of axes adds at most: what bounds an integer sum."""
    for axes in _subsets(reductions):
        most = math.prod(as_expr(axis.extent).bounds()[1] for axis in axes)
        if most < 2.0**31:
            encoding.say(f"(at-most {axis_set(encoding.axis_codes(axes))} {rational(int(most))})")


def _subsets(reductions: list[frozenset[Axis]]) -> list[frozenset[Axis]]:
    """Every non-empty part of the reductions' axes; of more than six axes only the whole and the single axes."""
    found: dict[frozenset[Axis], None] = {}
    for axes in reductions:
        listed = sorted(axes, key=lambda axis: axis.name)
        if len(listed) > 6:
            found.update(dict.fromkeys([frozenset(listed), *(frozenset([axis]) for axis in listed)]))
            continue
        for mask in range(1, 1 << len(listed)):
            found[frozenset(axis for k, axis in enumerate(listed) if mask >> k & 1)] = None
    return list(found)


def _cast_facts(encoding: Encoding, used: list[DType]) -> None:
    """The double casts whose inner cast loses nothing."""
    for source in used:
        for middle in used:
            if source == middle or not _widens(source, middle):
                continue
            for target in used:
                # An integer that went through a float saturates in a narrower integer; a direct cast would wrap.
                if source.is_integer and middle.is_float and target.is_integer and not _widens(source, target):
                    continue
                codes = (_DTYPE_CODE[dtype] for dtype in (source, middle, target))
                encoding.say(f"(elided {' '.join(str(code) for code in codes)})")


_EXACT_DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def _widens(source: DType, target: DType) -> bool:
    """True when the target holds every value of the source exactly."""
    if source == target or source.kind == "bool":
        return True
    if target.kind == "bool" or (source.is_float and not target.is_float):
        return False
    if source.is_float:
        return target.bits > source.bits
    if target.is_float:
        return source.bits - (source.kind == "int") <= _EXACT_DIGITS[target.name]
    low, high = source.range
    return target.range[0] <= low and high <= target.range[1]
