"""In-place update: a definition that keeps most of a donated buffer writes only what changes.

The normal form is `where(lo <= i < hi, a, buffer[i, …])` with the buffer read at the identical index.  When the result
takes over the donated buffer's memory, the kernel walks `lo <= i < hi` alone:

    out[i, j] = where(lo <= i < hi, a[i - lo, j], buffer[i, j])      →      out[lo + i', j] = a[i', j],  i' < hi - lo
"""

from __future__ import annotations

from snell.graph.primitives import Add
from snell.rewrite.conditions import decided, guards_of
from snell.rewrite.definition import Definition
from snell.rewrite.substitution import substitute
from snell.rewrite.term import Cast, Load, Not, Select, SelectElse, Tensor, Term, cast
from snell.symbolic import Axis, Expr, as_expr, as_size

__all__ = ["in_place"]


def in_place(definition: Definition, donated: Tensor) -> Definition | None:
    """The definition restricted to the rows it changes, or None when it is not an update of `donated`."""
    parts = _parts(definition.value)
    if parts is None:
        return None
    condition, changed, kept = parts
    kept = _unwidened(kept, donated)
    if not (isinstance(kept.op, Load) and kept.op.tensor == donated and not kept.op.guards):
        return None
    if kept.op.indices != definition.indices:
        return None
    guards = guards_of(condition)
    if guards is None:
        return None
    for axis in definition.axes:
        bounds = _interval(guards, axis)
        if bounds is not None:
            return _restricted(definition, axis, *bounds, changed)
    return None


def _unwidened(kept: Term, donated: Tensor) -> Term:
    """The load itself where the kept rows were only widened for arithmetic (rounding them back is exact)."""
    while isinstance(kept.op, Cast) and kept.dtype.is_float and kept.dtype.bits >= donated.dtype.bits:
        kept = kept.args[0]
    return kept


def _parts(value: Term) -> tuple[Term, Term, Term] | None:
    """(condition, value where it holds, value elsewhere)."""
    match value.op:
        case Cast():
            inner = _parts(value.args[0])
            return None if inner is None else (inner[0], cast(inner[1], value.dtype), inner[2])
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
