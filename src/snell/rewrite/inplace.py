"""In-place update: a definition that keeps most of a donated buffer writes only what changes.

The normal form is `where(lo <= i < hi, a, buffer[i, …])` with the buffer read at the identical index.  When the result
takes over the donated buffer's memory, the kernel walks `lo <= i < hi` alone:

    out[i, j] = where(lo <= i < hi, a[i - lo, j], buffer[i, j])      →      out[lo + i', j] = a[i', j],  i' < hi - lo

What is written must be proved to lie inside of the buffer (0 <= lo <= hi <= extent), and no element may be read after
it was written: `a` may hold the buffer at the identical index alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from snell.dtypes import DType, promote
from snell.graph.primitives import Add
from snell.rewrite.conditions import decided, guards_of
from snell.rewrite.definition import Definition
from snell.rewrite.substitution import substitute
from snell.rewrite.term import Cast, Load, Not, Reduction, Select, SelectElse, Tensor, Term, cast, walk
from snell.symbolic import Axis, Expr, as_expr, as_size

__all__ = ["in_place"]


def in_place(definition: Definition, donated: Tensor, known: Iterable[Expr] = ()) -> Definition | None:
    """The definition restricted to the rows it changes, or None when it is not an update of `donated`.

    `known` are expressions that are not negative wherever the program gets to its first write.
    """
    parts = _parts(definition.value)
    if parts is None:
        return None
    condition, changed, kept = parts
    kept = _unwidened(kept, donated.dtype)
    if not (isinstance(kept.op, Load) and kept.op.tensor == donated and not kept.op.guards):
        return None
    if kept.op.indices != definition.indices:
        return None
    guards = guards_of(condition)
    if guards is None or not _reads_before_it_writes(changed, kept, donated):
        return None
    for axis in definition.axes:
        bounds = _interval(guards, axis)
        if bounds is not None and _is_inside(*bounds, axis, known):
            return _restricted(definition, axis, *bounds, changed)
    return None


def _unwidened(kept: Term, stored: DType) -> Term:
    """The load itself where the kept rows pass only through floats that hold each of their values."""
    while isinstance(kept.op, Cast) and stored.is_float and kept.dtype.is_float:
        if promote(stored, kept.dtype) != kept.dtype:
            break
        kept = kept.args[0]
    return kept


def _reads_before_it_writes(changed: Term, kept: Term, donated: Tensor) -> bool:
    """Whether each element is read, if at all, only to compute itself.

    A reduction may keep partial sums where its result goes, so beside one nothing is read.
    """
    terms = list(walk(changed))
    own = [term for term in terms if isinstance(term.op, Load) and term.op.tensor == donated]
    return all(term is kept for term in own) and not (own and any(isinstance(term.op, Reduction) for term in terms))


def _is_inside(low: Expr, high: Expr, axis: Axis, known: Iterable[Expr]) -> bool:
    """Whether 0 <= low <= high <= extent is proved, or follows from one of the known facts."""
    room = as_expr(axis.extent) - high
    ends_inside = room.is_non_negative() or any((room - fact).is_non_negative() for fact in known)
    return low.is_non_negative() and (high - low).is_non_negative() and ends_inside


def _parts(value: Term) -> tuple[Term, Term, Term] | None:
    """(condition, value where it holds, value elsewhere)."""
    match value.op:
        case Cast():
            inner = _parts(value.args[0])
            return None if inner is None else (inner[0], cast(inner[1], value.dtype), cast(inner[2], value.dtype))
        case SelectElse():
            return value.args[0], value.args[1], value.args[2]
        case Add():
            a, b = value.args
            if not (isinstance(a.op, Select) and isinstance(b.op, Select)):
                return None
            for first, second in ((a, b), (b, a)):
                if isinstance(second.args[0].op, Not) and second.args[0].args[0] is first.args[0]:
                    return first.args[0], first.args[1], second.args[1]
            return None
        case _:
            return None


def _interval(guards: tuple[Expr, ...], axis: Axis) -> tuple[Expr, Expr] | None:
    """(lo, hi) when the guards say exactly `lo <= axis < hi`."""
    low: Expr | None = None
    high: Expr | None = None
    for guard in guards:
        if not guard.is_affine_in(axis) or guard.axes() != frozenset((axis,)):
            return None
        coefficient = guard.coefficient(axis)
        rest = guard - as_expr(axis) * coefficient
        if coefficient == 1 and low is None:
            low = -rest
        elif coefficient == -1 and high is None:
            high = rest + 1
        else:
            return None
    return None if low is None or high is None else (low, high)


def _restricted(definition: Definition, axis: Axis, low: Expr, high: Expr, changed: Term) -> Definition:
    inner = Axis(f"{axis.name}_changed", as_size(high - low))
    moved = {axis: low + as_expr(inner)}
    axes = tuple(inner if a == axis else a for a in definition.axes)
    indices = tuple(index.substitute(moved) for index in definition.indices)  # type: ignore[arg-type]
    return Definition(definition.tensor, axes, indices, decided(substitute(changed, moved)))
