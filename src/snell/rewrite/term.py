"""Index notation: interned scalar terms over named axes, the language from the e-graph down to the loop IR.

A term is a scalar expression whose free variables are axes.  `Sum` and `Max` bind axes.  Loads name a tensor and one
integer expression per dimension; strides never occur.  Primitives are the operations of `graph.primitives`; the other
operators are idioms recovered from them, each equal to its primitive spelling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from snell.dtypes import DType, bool_, i64
from snell.graph.primitives import Op, Storage
from snell.symbolic import Axis, Expr, Opaque, Shape

__all__ = [
    "And", "Cast", "Divide", "Equal", "FloorDivide", "Index", "Load", "Max", "Maximum", "Not", "Number", "Reduction",
    "Select", "SelectElse", "Subtract", "Sum", "Tensor", "Term", "cast", "index", "load", "number", "reduction", "term", "walk",
]  # fmt: skip

SHOWN_TERMS = 2000


@dataclass(frozen=True, slots=True)
class Tensor:
    """Something stored that terms load from: an input, or a value a kernel materialises.  The name is its identity.

    `frozen` tensors (weights) never change between calls, so that what depends on them alone can be prepared once.
    """

    name: str
    shape: Shape
    dtype: DType
    storage: Storage | None = None
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Number(Op):
    """An exact constant (Fraction or int; float only for ±inf and NaN); the term's dtype says how it is rounded."""

    value: Fraction | int | float


@dataclass(frozen=True, slots=True)
class Index(Op):
    """The value of an integer expression over axes and dims, as i64 (iota, positions, sizes)."""

    expression: Expr


@dataclass(frozen=True, slots=True)
class Load(Op):
    """`tensor[indices]` where every guard is `>= 0`, else 0 (and memory is not touched)."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    guards: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Cast(Op):
    """Conversion to the term's dtype, with the semantics of `Contiguous`."""


@dataclass(frozen=True, slots=True)
class Subtract(Op):
    """a - b."""


@dataclass(frozen=True, slots=True)
class Divide(Op):
    """a / b, correctly rounded (floats)."""


@dataclass(frozen=True, slots=True)
class FloorDivide(Op):
    """⌊a / b⌋ of integers; 0 where b is 0."""


@dataclass(frozen=True, slots=True)
class Maximum(Op):
    """max(a, b), propagating NaN."""


@dataclass(frozen=True, slots=True)
class Equal(Op):
    """a == b as bool; false on NaN."""


@dataclass(frozen=True, slots=True)
class Not(Op):
    """Negation of a bool."""


@dataclass(frozen=True, slots=True)
class And(Op):
    """Conjunction of bools."""


@dataclass(frozen=True, slots=True)
class Select(Op):
    """`x` where the bool `c` holds, else 0: arguments (c, x)."""


@dataclass(frozen=True, slots=True)
class SelectElse(Op):
    """`a` where the bool `c` holds, else `b`: arguments (c, a, b)."""


@dataclass(frozen=True, slots=True)
class Reduction(Op):
    """Binds `axes` of its one argument."""

    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Sum(Reduction):
    """Σ over axes; 0 when empty."""


@dataclass(frozen=True, slots=True)
class Max(Reduction):
    """Maximum over axes, propagating NaN; the dtype's lowest value when empty."""


class Term:
    """An interned operation on terms; equality is identity.  `free` is the set of axes it depends on."""

    __slots__ = ("args", "dtype", "free", "op", "serial")

    op: Op
    args: tuple[Term, ...]
    dtype: DType
    free: frozenset[Axis]
    serial: int

    def __repr__(self) -> str:
        return show(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (term, (self.op, self.args, self.dtype))


_TABLE: dict[tuple[object, ...], Term] = {}


def term(op: Op, args: tuple[Term, ...], dtype: DType) -> Term:
    """The interned term of an operation, its arguments and its dtype."""
    key = (type(op), op, tuple(arg.serial for arg in args), dtype)
    found = _TABLE.get(key)
    if found is None:
        found = Term()
        found.op, found.args, found.dtype = op, args, dtype
        found.free = _free(op, args)
        found.serial = len(_TABLE)
        _TABLE[key] = found
    return found


def _free(op: Op, args: tuple[Term, ...]) -> frozenset[Axis]:
    match op:
        case Index(expression):
            return expression.axes()
        case Load(_, indices, guards):
            return frozenset[Axis]().union(*(e.axes() for e in (*indices, *guards)))
        case Reduction(axes):
            return args[0].free - set(axes)
        case _:
            return frozenset[Axis]().union(*(arg.free for arg in args))


def number(value: Fraction | int | float, dtype: DType) -> Term:
    """A constant; finite floats become exact fractions, so that equal constants are one term."""
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        value = Fraction(value)
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    return term(Number(value), (), dtype)


def index(expression: Expr) -> Term:
    """The i64 value of an integer expression."""
    if expression.is_constant:
        return number(expression.constant, i64)
    return term(Index(expression), (), i64)


def load(tensor: Tensor, indices: tuple[Expr, ...], guards: tuple[Expr, ...] = ()) -> Term:
    return term(Load(tensor, indices, guards), (), tensor.dtype)


def cast(argument: Term, dtype: DType) -> Term:
    return argument if argument.dtype == dtype else term(Cast(), (argument,), dtype)


def reduction(op: Reduction, body: Term) -> Term:
    """`op` over `body`; axes are kept in the order given."""
    return term(op, (body,), body.dtype)


def opaque(argument: Term, lower: int, upper: int) -> Opaque:
    """A loaded integer as an atom of index expressions (gathers): `lower..upper` must be guaranteed by the caller."""
    return Opaque(argument, lower, upper, argument.free)


def logical_not(argument: Term) -> Term:
    return argument.args[0] if isinstance(argument.op, Not) else term(Not(), (argument,), bool_)


def walk(*roots: Term) -> Iterator[Term]:
    """Every distinct term below the roots, arguments first (terms inside opaque indices included)."""
    seen: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        item, done = stack.pop()
        if done:
            yield item
            continue
        if item in seen:
            continue
        seen.add(item)
        stack.append((item, True))
        stack.extend((child, False) for child in reversed(children(item)))


def children(item: Term) -> tuple[Term, ...]:
    """Arguments, and the terms loaded inside its index expressions."""
    match item.op:
        case Load(_, indices, guards):
            atoms = [a for e in (*indices, *guards) for a in e.atoms()]
        case Index(expression):
            atoms = list(expression.atoms())
        case _:
            return item.args
    inner = sorted((a.key for a in atoms if isinstance(a, Opaque) and isinstance(a.key, Term)), key=lambda t: t.serial)
    return (*item.args, *dict.fromkeys(inner))


def show(item: Term) -> str:
    """One-line text, for people.  Beyond `SHOWN_TERMS` subterms `…` stands for the rest: written out, shared subterms
    would make it exponentially long."""
    left = SHOWN_TERMS

    def go(item: Term) -> str:
        nonlocal left
        left -= 1
        if left < 0:
            return "…"
        match item.op:
            case Number(value):
                return str(value)
            case Index(expression):
                return f"({expression})"
            case Load(tensor, indices, guards):
                guard = f" if {' and '.join(f'{g} >= 0' for g in guards)}" if guards else ""
                return f"{tensor.name}[{', '.join(str(i) for i in indices)}{guard}]"
            case Reduction(axes):
                return f"{type(item.op).__name__}{{{', '.join(str(a) for a in axes)}}}({go(item.args[0])})"
            case Cast():
                return f"{item.dtype}({go(item.args[0])})"
            case _:
                name = getattr(item.op, "name", type(item.op).__name__)
                return f"{name}({', '.join(go(arg) for arg in item.args)})"

    return go(item)
