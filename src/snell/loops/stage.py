"""A stage: one definition split into accumulators and the value stored after they are finished.

`tensor[indices] = value` where the value may read accumulators, all of which reduce over the same axes.  Reductions
nested inside another reduction, or over other axes, become definitions of their own before a stage is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from snell.dtypes import DType
from snell.loops.ir import Accumulator, Combine, ReadAccumulator, read
from snell.rewrite.cut import typical_size, typical_volume
from snell.rewrite.definition import Definition
from snell.rewrite.term import Load, Max, Reduction, Sum, Tensor, Term, load, reduction, term, walk
from snell.symbolic import Axis, Expr, as_expr, as_size

__all__ = ["Partial", "Stage", "definition_of", "map_term", "stages_of"]

_MANY = 2.0


@dataclass(frozen=True, slots=True)
class Partial:
    """One accumulator of a stage and the term it combines."""

    accumulator: Accumulator
    body: Term


@dataclass(frozen=True, slots=True)
class Stage:
    """One fused loop nest before scheduling: `tensor[indices] = value` over `axes`, reducing over `reduced`.

    `ranges` restricts axes that an enclosing level of a group already walks (1 for a fixed one, the block for rows);
    `inside` names the tensors that the same group makes, so that nothing copies them before they exist.
    """

    tensor: Tensor
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    reduced: tuple[Axis, ...]
    partials: tuple[Partial, ...]
    value: Term
    ranges: tuple[tuple[Axis, int], ...] = ()
    inside: frozenset[Tensor] = frozenset()

    def extent(self, axis: Axis) -> float:
        """The typical extent of an axis inside this stage: its range where an enclosing level restricts it."""
        return next((float(size) for known, size in self.ranges if known == axis), typical_size(axis.extent))

    @property
    def rows(self) -> Axis | None:
        """The axis a group walks in blocks: the innermost of its outer ones."""
        return self.ranges[-1][0] if self.ranges else None

    @property
    def holds_sums(self) -> bool:
        """Whether the result can hold a sum between passes over it: one sum, in its own dtype."""
        if len(self.partials) != 1:
            return False
        (partial,) = self.partials
        return partial.accumulator.combine is Combine.SUM and partial.accumulator.dtype == self.tensor.dtype

    def terms(self) -> tuple[Term, ...]:
        return (*(partial.body for partial in self.partials), self.value)

    def loads(self) -> tuple[Term, ...]:
        """Every distinct load, in a deterministic order."""
        return _loads(self.terms())

    def reads(self) -> frozenset[Tensor]:
        return frozenset(t.op.tensor for t in self.loads() if isinstance(t.op, Load))


@lru_cache(maxsize=1 << 12)
def _loads(roots: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(t for t in walk(*roots) if isinstance(t.op, Load))


def map_term(root: Term, replace: Callable[[Term], Term | None]) -> Term:
    """Rebuild bottom-up, replacing where `replace` returns a term (asked top-down, before arguments are visited)."""
    memo: dict[Term, Term] = {}

    def go(item: Term) -> Term:
        found = memo.get(item)
        if found is None:
            replaced = replace(item)
            found = replaced if replaced is not None else _with_arguments(item, tuple(go(arg) for arg in item.args))
            memo[item] = found
        return found

    return go(root)


def _with_arguments(item: Term, args: tuple[Term, ...]) -> Term:
    return item if args == item.args else term(item.op, args, item.dtype)


def _reductions(root: Term) -> list[Term]:
    """Outermost reductions below a term."""
    found: dict[Term, None] = {}
    seen: set[Term] = set()  # a term is a DAG: shared parts are visited once

    def go(item: Term) -> None:
        if item in seen:
            return
        seen.add(item)
        if isinstance(item.op, Reduction):
            found[item] = None
            return
        for arg in item.args:
            go(arg)

    go(root)
    return list(found)


def stages_of(definition: Definition, fresh: Iterator[int]) -> list[Stage]:
    """The stages that compute a definition, hoisted reductions first, the definition's own tensor last."""
    value = map_term(definition.value, lambda item: None)
    hoisted: list[Stage] = []

    def hoist(item: Term) -> Term:
        axes = _laid_out(item, definition.axes)
        shape = tuple(as_size(axis.extent) for axis in axes)
        tensor = Tensor(f"{definition.tensor.name}.{next(fresh)}", shape, item.dtype)
        places = tuple(as_expr(axis) for axis in axes)
        hoisted.extend(stages_of(Definition(tensor, axes, places, item), fresh))
        return load(tensor, places)

    def flat(item: Term) -> Term | None:
        """Nested reductions inside a reduction's body are stored first."""
        if not isinstance(item.op, Reduction):
            return None
        body = item.args[0]
        for inner in _reductions(body):
            body = map_term(body, lambda t, inner=inner: hoist(inner) if t is inner else None)
        return term(item.op, (body,), item.dtype)

    value = map_term(value, flat)
    roots = _reductions(value)
    if roots:
        chosen = _largest(roots)
        for other in roots:
            assert isinstance(other.op, Reduction)
            assert isinstance(chosen.op, Reduction)
            if set(other.op.axes) != set(chosen.op.axes) or _repeats(chosen, definition):
                value = map_term(value, lambda t, other=other: hoist(other) if t is other else None)
        roots = _reductions(value)
    return [*hoisted, _stage(definition, value, roots)]


def _repeats(reduction: Term, definition: Definition) -> bool:
    """Whether the definition has many positions for each of the reduction's, and would work it out at all of them."""
    return 0.0 < _MANY * typical_volume(reduction.free) <= typical_volume(definition.axes)


def _laid_out(item: Term, outer: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes of a reduction's result: those along which its operands lie side by side come last, as they are there."""
    beside = {a for t in walk(item) if isinstance(t.op, Load) for a in t.free if t.op.indices[-1].coefficient(a) == 1}
    place = {axis: k for k, axis in enumerate(outer)}
    return tuple(sorted(item.free, key=lambda axis: (axis in beside, place.get(axis, -1), str(axis))))


def definition_of(stage: Stage) -> Definition:
    """The stage with its reductions back in its value: `stages_of` undone."""
    bodies = {p.accumulator: p for p in stage.partials}

    def whole(item: Term) -> Term | None:
        if not isinstance(item.op, ReadAccumulator):
            return None
        partial = bodies[item.op.accumulator]
        kind = Sum if partial.accumulator.combine is Combine.SUM else Max
        return reduction(kind(stage.reduced), partial.body)

    return Definition(stage.tensor, stage.axes, stage.indices, map_term(stage.value, whole))


def _largest(roots: Sequence[Term]) -> Term:
    """The reduction with the most free axes (first of equals) stays in the stage."""
    return max(roots, key=lambda item: (len(item.free), -roots.index(item)))


def _stage(definition: Definition, value: Term, roots: Sequence[Term]) -> Stage:
    partials: list[Partial] = []
    reduced: tuple[Axis, ...] = ()
    for number, root in enumerate(roots):
        assert isinstance(root.op, Sum | Max)
        reduced = reduced or root.op.axes
        combine = Combine.SUM if isinstance(root.op, Sum) else Combine.MAX
        accumulator = Accumulator(f"acc{number}", combine, accumulator_dtype(root.dtype), definition.axes)
        partials.append(Partial(accumulator, root.args[0]))
        value = map_term(value, lambda t, root=root, a=accumulator: read(a) if t is root else None)
    return Stage(definition.tensor, definition.axes, definition.indices, reduced, tuple(partials), value)


def accumulator_dtype(dtype: DType) -> DType:
    """Reductions accumulate in the term's dtype; 16-bit floats were widened while terms were built."""
    return dtype
