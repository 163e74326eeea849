"""Pruning: loops leave out the positions at which masks make every term of a reduction its identity.

A reduction visits, tile by tile, what its guards leave.  What a stage makes for others it makes where they read it: the
bound of a reader, widened to whole tiles of the reader's loop and to all rows of the block that both run for.
Bounds are affine: `j <= i` of a causal mask, `i - w < j` of a window, the triangle of a factor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from snell.loops.absence import Absence, absences, dimensions, shared_guards
from snell.loops.ir import Loop, LoopKind, Statement, Store, Update, statements
from snell.loops.stage import Stage
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Load, Tensor
from snell.symbolic import Axis, Dim, Expr, as_expr

__all__ = ["bounded_loop", "pruned"]

Ranges = Mapping[Axis, int]
"""How far each axis reaches from the position of its enclosing loop; all of it where it is not named."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """Positions of `axis` where `guard >= 0` for some position of the other axes, and `slack` more on both sides."""

    axis: Axis
    guard: Expr
    slack: int = 0
    whole: Ranges | None = None  # where a whole block of rows has to be covered, not only the loop's own tile

    def apply(self, loop: Loop, ranges: Ranges) -> Loop:
        """The loop with its side bounded, as far as it has no bound there yet."""
        rest = _greatest(self.guard - as_expr(self.axis) * self.sign, ranges, self.whole or {})
        if self.sign < 0:
            return replace(loop, upper=rest + 1 + self.slack)
        return replace(loop, lower=-rest - self.slack)

    @property
    def sign(self) -> int:
        """Negative for an upper bound."""
        return self.guard.coefficient(self.axis)


def _greatest(rest: Expr, ranges: Ranges, whole: Ranges) -> Expr:
    """The greatest value of an affine expression while its axes run over their ranges (`whole`: from an earlier start)."""
    places: dict[Axis, Expr] = {}
    for axis in rest.axes():
        span = as_expr(ranges.get(axis, axis.extent))
        if rest.coefficient(axis) > 0:
            places[axis] = as_expr(axis) + as_expr(whole.get(axis, span)) - 1
        else:
            places[axis] = as_expr(axis) + span - as_expr(whole.get(axis, span))
    return rest.substitute(places)  # type: ignore[arg-type]


def _bounds(axis: Axis, guards: Iterable[Expr]) -> list[_Bound]:
    """The guards that bound an axis from above and from below, one each."""
    found: dict[int, _Bound] = {}
    for guard in sorted(guards, key=str):
        plain = all(isinstance(atom, Axis | Dim) for atom in guard.atoms()) and all(
            map(guard.is_affine_in, guard.axes())
        )
        if plain and abs(guard.coefficient(axis)) == 1:
            found.setdefault(guard.coefficient(axis), _Bound(axis, guard))
    return list(found.values())


def bounded_loop(loop: Loop, guards: Iterable[Expr], ranges: Ranges) -> Loop:
    """The loop without iterations in which a guard is negative at all positions."""
    for bound in _bounds(loop.level.axis, guards):
        loop = bound.apply(loop, ranges)
    return loop


@dataclass(frozen=True, slots=True)
class _Need:
    """Which part of a tensor its readers look at: where guards over its dimensions hold, and `slack` beside."""

    guards: Mapping[Expr, int]

    def joined(self, other: _Need | None) -> _Need:
        """What two readers need: only a guard of both is one."""
        if other is None:
            return self
        return _Need({g: max(slack, other.guards[g]) for g, slack in self.guards.items() if g in other.guards})


def pruned(
    stages: Sequence[Stage], bodies: Sequence[tuple[Statement, ...]], local: Iterable[Tensor], ranges: Ranges
) -> list[tuple[Statement, ...]]:
    """The loop nests of stages that share the outer axes `ranges`, with bounds where masks give them.

    `local` tensors are made and read by these stages alone.
    """
    known = absences(stages, local)
    needs: dict[Tensor, _Need] = {}
    found = list(bodies)
    for place in reversed(range(len(stages))):
        stage = _StagePruning(stages[place], known, needs.get(stages[place].tensor), ranges)
        found[place] = stage.run(found[place])
        for tensor, need in stage.needs():
            needs[tensor] = need.joined(needs.get(tensor))
    return found


class _StagePruning:
    """The bounds of one stage's axes, and what it then needs of the tensors it reads."""

    def __init__(self, stage: Stage, known: Mapping[Tensor, Absence], need: _Need | None, ranges: Ranges) -> None:
        self.stage = stage
        self.known = known
        self.ranges = ranges
        guards = shared_guards(stage.partials, known)
        self.bounds: dict[Axis, list[_Bound]] = {axis: _bounds(axis, guards) for axis in stage.reduced}
        self.steps: dict[Axis, int] = {}
        if need is not None:
            self._take_over(need)

    def _take_over(self, need: _Need) -> None:
        """Bounds of the data axes from what readers look at."""
        places = dict(zip(dimensions(self.stage.tensor), self.stage.indices, strict=True))
        slacks = {guard.substitute(places): slack for guard, slack in need.guards.items()}  # type: ignore[arg-type]
        for axis in set(self.stage.axes) - set(self.ranges):
            bounds = _bounds(axis, slacks)
            self.bounds[axis] = [replace(b, slack=slacks[b.guard], whole=self.ranges) for b in bounds]

    def run(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The nest with bounds on the outermost loop of each bounded axis."""
        for axis, bounds in self.bounds.items():
            if bounds:
                found = list(_outermost(body, axis, self.stage))
                if found and all(map(_runs_often, found)):
                    self.steps[axis] = max(loop.level.step for loop in found)
                    body = _with_bounds(body, axis, bounds, dict(self.ranges), self.stage)
        return body

    def needs(self) -> Iterator[tuple[Tensor, _Need]]:
        """What the stage looks at of the local tensors with something absent."""
        for item in self.stage.loads():
            assert isinstance(item.op, Load)
            if item.op.tensor in self.known:
                guards: dict[Expr, int] = {}
                for dimension, index in zip(dimensions(item.op.tensor), item.op.indices, strict=True):
                    for axis, step in self.steps.items():
                        if index == as_expr(axis):
                            guards |= self._seen(axis, step, dimension)
                yield item.op.tensor, _Need(guards)

    def _seen(self, axis: Axis, step: int, dimension: Axis) -> dict[Expr, int]:
        """The bounds of an axis as guards over a dimension and the shared outer axes."""
        found: dict[Expr, int] = {}
        for bound in self.bounds[axis]:
            others = [a for a in bound.guard.axes() if a != axis and a in self.ranges]
            inner = [a for a in bound.guard.axes() if a != axis and a not in self.ranges]
            widest = _greatest(bound.guard, dict.fromkeys((axis, *others), 1), {})
            seen = widest.substitute({axis: as_expr(dimension)} | dict.fromkeys(inner, as_expr(0)))  # type: ignore[arg-type]
            found[seen] = bound.slack + step - 1
        return found


def _outermost(body: Sequence[Statement], axis: Axis, stage: Stage) -> Iterator[Loop]:
    for statement in body:
        if isinstance(statement, Loop):
            if _is_over(statement, axis, stage):
                yield statement
            else:
                yield from _outermost(statement.body, axis, stage)


def _is_over(loop: Loop, axis: Axis, stage: Stage) -> bool:
    """Whether a loop only walks positions of an axis: what copies operands, or stores a result in passes, has to run."""
    if loop.level.axis != axis:
        return False
    if axis not in stage.reduced:
        return True
    inner = statements(loop.body)
    return any(isinstance(item, Update) for item in inner) and not any(isinstance(item, Store) for item in inner)


def _runs_often(loop: Loop) -> bool:
    level = loop.level
    return level.kind is LoopKind.SERIAL and typical_size(level.axis.extent) > level.step


def _with_bounds(
    body: Sequence[Statement], axis: Axis, bounds: Sequence[_Bound], ranges: dict[Axis, int], stage: Stage
) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            level = statement.level
            if _is_over(statement, axis, stage):
                for bound in bounds:
                    statement = bound.apply(statement, ranges)
            else:
                inner = _with_bounds(statement.body, axis, bounds, ranges | {level.axis: level.step}, stage)
                statement = replace(statement, body=inner)
        found.append(statement)
    return tuple(found)
