"""Scatters: reductions over positions each of which meets only the results that a stored integer names.

    t[r, c] = Σ_n [r == index[n]]·value[n, c]

Worked out as it is written, every row compares itself with every position: O(r·n·c).  A scatter walks the positions once
and combines each into the rows that its equation leaves: O(r·c + n·c).  `scatter_of` finds it in a stage as it is written,
where the walk is cheaper at typical sizes; gradients of look-ups, counts and segment sums are instances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from snell.dtypes import bool_, f32, f64
from snell.loops.access import Access, access_of
from snell.loops.ir import Accumulator, Combine
from snell.loops.schedule import LONGEST_SUM
from snell.loops.stage import Partial, Stage
from snell.rewrite.cut import typical_volume
from snell.rewrite.gather import conditions, conjunction, conjuncts, equation, select
from snell.rewrite.term import Index, Load, Number, SelectElse, Term, cast, number, term, walk
from snell.symbolic import Axis, Expr, as_expr
from snell.targets import Target

__all__ = ["Combined", "Place", "Scatter", "placed_axes", "scatter_of", "walk_seconds"]

# Cycles: of a lane's operation, of a position that a ticket looks at, and of one that it takes in (a branch that was not
# foreseen, and loops that begin).
_LOOK, _TAKE = 2.0, 20.0
_CLOCK = 3e9
_MASKED = 3.0  # operations of a lane where every result meets every position: compare, select, combine
_SWEPT = 4.0  # operations of a lane to begin and to finish a result
_ADDED = 4.0  # to take in a value: two loads, an addition, a store
_BLOCK_SHARE = 2.0  # part of the second-level cache that a ticket's results leave to what it reads


@dataclass(frozen=True, slots=True)
class Place:
    """At each position of the walk a data axis has one position that counts: `at`, which may lie outside of the axis."""

    axis: Axis
    at: Expr


@dataclass(frozen=True, slots=True)
class Combined:
    """One accumulator: what it starts from, and the value that a position combines into it."""

    accumulator: Accumulator
    start: Term
    value: Term


@dataclass(frozen=True, slots=True)
class Scatter:
    """A stage as a walk: reduced axes `walked` tell the `places`, those of `inner` do not; `blocks` are positions of each
    data axis that fit into a cache together, and `lanes` the data axis along which values are combined as vectors."""

    stage: Stage
    places: tuple[Place, ...]
    combined: tuple[Combined, ...]
    walked: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    blocks: tuple[tuple[Axis, int], ...]
    lanes: Axis | None


@lru_cache(maxsize=1 << 10)
def scatter_of(stage: Stage, target: Target) -> Scatter | None:
    """How the stage is a scatter; None where it is none, or where that does not pay at typical sizes.

    It depends on sizes and the target alone, so that results are the same for any number of threads.
    """
    if stage.ranges or not stage.partials or any(axis.extent == 0 for axis in (*stage.axes, *stage.reduced)):
        return None
    places, equations = _places(stage)
    combined = [_combined(stage, partial, equations) for partial in stage.partials]
    found = [item for item in combined if item is not None]
    if not places or len(found) < len(combined):
        return None
    told = {axis for place in places for axis in place.at.axes()}
    walked = tuple(axis for axis in stage.reduced if axis in told)
    inner = tuple(axis for axis in stage.reduced if axis not in told)
    scatter = Scatter(stage, places, tuple(found), walked, inner, (), _lanes(stage, places, found))
    scatter = replace(scatter, blocks=_blocks(scatter, target))
    return scatter if _walk_cycles(scatter, target) < _masked_cycles(stage, target) else None


def placed_axes(stage: Stage) -> frozenset[Axis]:
    """The data axes of which each position of the reduction meets one position, whatever the kernel visits."""
    return frozenset(place.axis for place in _places(stage)[0])


def _places(stage: Stage) -> tuple[tuple[Place, ...], frozenset[Term]]:
    """The data axes that equations of all partials fix at each position, and those equations."""
    shared = [_required(partial)[0] for partial in stage.partials] or [[]]
    places: list[Place] = []
    used: set[Term] = set()
    for condition in shared[0]:
        if any(condition not in others for others in shared) or not condition.free & set(stage.reduced):
            continue
        difference = equation(condition)
        solved = _solved(difference, stage) if difference is not None else None
        if solved and _is_independent(solved, places):
            places += solved
            used.add(condition)
    return tuple(places), frozenset(used)


def _is_independent(solved: Sequence[Place], places: Sequence[Place]) -> bool:
    """Whether neither places of another equation depend on where these are, nor these on those."""
    axes, told = {place.axis for place in places}, {axis for place in places for axis in place.at.axes()}
    return not any(place.axis in axes | told or axes & place.at.axes() for place in solved)


def _solved(difference: Expr, stage: Stage) -> list[Place] | None:
    """`Σ c_i·a_i = e` solved for the data axes a_i, where these are the digits of one number; None where they are not."""
    axes = [axis for axis in stage.axes if difference.coefficient(axis) and difference.is_affine_in(axis)]
    axes.sort(key=lambda axis: -abs(difference.coefficient(axis)))
    if not axes or abs(difference.coefficient(axes[-1])) != 1:
        return None
    sign = difference.coefficient(axes[-1])
    rest = as_expr(0) - difference * sign
    steps = [difference.coefficient(axis) * sign for axis in axes]
    for axis, step in zip(axes, steps, strict=True):
        rest = rest + as_expr(axis) * step
    found: list[Place] = []
    for k, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        below = [(a.extent, s) for a, s in zip(axes[k + 1 :], steps[k + 1 :], strict=True)]
        if any(not isinstance(extent, int) for extent, _ in below):
            return None
        if step < 1 or sum((extent - 1) * s for extent, s in below if isinstance(extent, int)) >= step:
            return None
        found.append(Place(axis, rest if step == 1 else rest // step))
        rest = rest - as_expr(axis) * step
    return found if rest.axes() & set(stage.reduced) else None


def _required(partial: Partial) -> tuple[list[Term], Term, Term]:
    """Conditions, the value where all hold, and the value elsewhere."""
    accumulator, body = partial.accumulator, partial.body
    if body.dtype == bool_:
        return conjuncts(body), number(1, bool_), number(0, bool_)
    if isinstance(body.op, SelectElse):
        condition, value, other = body.args
        return conjuncts(condition), value, other
    required, value = conditions(body)
    return required, value, number(0, accumulator.dtype)


def _combined(stage: Stage, partial: Partial, equations: frozenset[Term]) -> Combined | None:
    """What is combined at a position of the walk; None where skipping the others would change the result."""
    required, value, other = _required(partial)
    accumulator = partial.accumulator
    start = _start(stage, accumulator, value, other)
    if start is None:
        return None
    rest = conjunction([condition for condition in required if condition not in equations])
    if isinstance(rest.op, Number):
        chosen = value
    elif accumulator.combine is Combine.SUM or value.dtype == bool_:
        chosen = select(rest, value)
    else:
        chosen = term(SelectElse(), (rest, value, other), value.dtype)
    wide = replace(accumulator, dtype=f64) if _is_long(stage, accumulator) else accumulator
    return Combined(wide, cast(start, wide.dtype), cast(chosen, wide.dtype))


def _start(stage: Stage, accumulator: Accumulator, value: Term, other: Term) -> Term | None:
    """What a result without a position is: the identity, or the least that positions elsewhere give it."""
    if not isinstance(other.op, Number):
        return None
    identity = 0 if accumulator.combine is Combine.SUM else accumulator.dtype.lowest
    if accumulator.combine is Combine.SUM:
        return other if other.op.value == 0 else None
    if other.op.value == identity:
        return other
    never_empty = all(as_expr(axis.extent).bounds()[0] >= 1 for axis in stage.reduced)
    return other if never_empty and _least(value) >= other.op.value else None


def _least(value: Term) -> float:
    """A lower bound of a value."""
    match value.op:
        case Index(expression):
            return expression.bounds()[0]
        case Number(constant):
            return float(constant)
        case _:
            return -math.inf


def _is_long(stage: Stage, accumulator: Accumulator) -> bool:
    """Whether a result may take in more terms than one f32 number holds accurately."""
    terms = math.prod(as_expr(axis.extent).bounds()[1] for axis in stage.reduced)
    return accumulator.combine is Combine.SUM and accumulator.dtype == f32 and terms > LONGEST_SUM


# -- blocks and costs


def walk_seconds(scatter: Scatter, target: Target) -> float:
    """Rough time of the walk on one thread."""
    return _walk_cycles(scatter, target) / _CLOCK


def _lanes(stage: Stage, places: Sequence[Place], combined: Sequence[Combined]) -> Axis | None:
    """The data axis that no place tells of, along which the most operands are neighbours."""
    told = {axis for place in places for axis in (place.axis, *place.at.axes())}
    store = Access(stage.tensor, stage.indices)
    loads = [item for item in walk(*(c.value for c in combined)) if isinstance(item.op, Load)]

    def worth(axis: Axis) -> tuple[float, ...]:
        beside = sum(access_of(item).is_vector(axis) for item in loads)
        return beside, store.stride(axis) == 1.0, stage.extent(axis)

    return max((a for a in stage.axes if a not in told and stage.extent(a) > 1), key=worth, default=None)


def _blocks(scatter: Scatter, target: Target) -> tuple[tuple[Axis, int], ...]:
    """Positions of each data axis that one ticket combines into: as many as the cache holds, those of lanes first."""
    stage = scatter.stage
    placed = [place.axis for place in scatter.places]
    told = {axis for place in scatter.places for axis in place.at.axes()} - set(placed)
    others = [axis for axis in reversed(stage.axes) if axis not in told and axis not in placed]
    order = [*sorted(others, key=lambda axis: axis != scatter.lanes), *reversed(placed)]
    each = sum(max(1, item.accumulator.dtype.itemsize) for item in scatter.combined)
    room = max(64, int(target.l2_bytes / _BLOCK_SHARE / each))
    sizes = dict.fromkeys(stage.axes, 1)
    for axis in order:
        sizes[axis] = max(1, min(math.ceil(stage.extent(axis)), room))
        room = max(1, room // sizes[axis])
    return tuple(sizes.items())


def _walk_cycles(scatter: Scatter, target: Target) -> float:
    stage, lanes = scatter.stage, target.lanes(f32)
    tickets = math.prod(math.ceil(stage.extent(axis) / size) for axis, size in scatter.blocks)
    positions = typical_volume(scatter.walked)
    told = {axis for place in scatter.places for axis in (place.axis, *place.at.axes())}
    taken = positions * typical_volume([a for a in stage.axes if a in told and a not in _placed(scatter)])
    values = typical_volume([*(a for a in stage.axes if a not in told), *scatter.inner])
    added = _ADDED * values / (lanes if scatter.lanes is not None else 1)
    return _SWEPT * typical_volume(stage.axes) / lanes + _LOOK * tickets * positions + taken * (_TAKE + added)


def _placed(scatter: Scatter) -> set[Axis]:
    return {place.axis for place in scatter.places}


def _masked_cycles(stage: Stage, target: Target) -> float:
    return _MASKED * typical_volume({*stage.axes, *stage.reduced}) / target.lanes(f32)
