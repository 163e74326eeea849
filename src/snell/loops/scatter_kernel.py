"""The kernel of a scatter: each ticket owns a range of results, and walks all positions once.

    tickets over blocks of the data axes
      sums = start
      for the walked axes
        for a placed axis from its place to its place     (nothing, where that is not in the ticket's range)
          sums = sums combined with value
      result = f(sums)

No two tickets write one result, so nothing has to be atomic; each result takes its positions in order, so its bits do not
depend on the blocks, nor on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snell.dtypes import bool_, f32
from snell.graph.primitives import Add
from snell.loops.access import Access
from snell.loops.ir import (
    Allocate,
    Buffer,
    BufferScope,
    Combine,
    Level,
    Loop,
    LoopKind,
    Phase,
    ReadAccumulator,
    Statement,
    Store,
)
from snell.loops.scatter import Combined, Place, Scatter
from snell.loops.stage import map_term
from snell.rewrite.term import And, Maximum, Tensor, Term, cast, load, logical_not, term
from snell.symbolic import Axis, Expr, as_expr
from snell.targets import Target

__all__ = ["scatter_phase"]

_PIECES = 4  # tickets a thread, where there is as much to share
_LEAST_LANES = 4  # vectors of a ticket
_MOST_VECTORS = 4  # written out together


@dataclass(frozen=True, slots=True)
class _Sums:
    """The local buffer of one accumulator."""

    combined: Combined
    buffer: Buffer
    places: tuple[Expr, ...]

    def read(self) -> Term:
        return load(self.buffer.tensor, self.places)

    def store(self, value: Term) -> Store:
        return Store(self.buffer.tensor, self.places, value)


def scatter_phase(scatter: Scatter, target: Target, threads: int) -> Phase:
    """The one phase of the kernel."""
    stage, blocks = scatter.stage, _shared(scatter, target, threads)
    last = scatter.lanes or max(stage.axes, key=lambda axis: blocks[axis])
    order = tuple(sorted(stage.axes, key=lambda axis: axis == last))
    sums = [_sums(scatter, item, order, blocks) for item in scatter.combined]
    begun = _swept(order, last, blocks, target, tuple(s.store(s.combined.start) for s in sums))
    finished = Store(stage.tensor, stage.indices, _finished(scatter, sums))
    ended = _swept(order, _neighbour(scatter, blocks, last), blocks, target, (finished,))
    body = (Allocate(tuple(s.buffer for s in sums)), *begun, *_walk(scatter, sums, order, blocks, target), *ended)
    return Phase(tuple(Level(axis, blocks[axis]) for axis in stage.axes), body)


def _shared(scatter: Scatter, target: Target, threads: int) -> dict[Axis, int]:
    """The blocks, smaller where there would be too few tickets for the threads: along lanes first, which all positions
    share equally."""
    blocks, stage = dict(scatter.blocks), scatter.stage
    wanted = _PIECES * threads if threads > 1 else 1

    def tickets() -> float:
        return math.prod(math.ceil(stage.extent(axis) / size) for axis, size in blocks.items())

    narrowest = _LEAST_LANES * target.lanes(f32)
    while scatter.lanes is not None and tickets() < wanted and blocks[scatter.lanes] >= 2 * narrowest:
        half = math.ceil(blocks[scatter.lanes] / 2)
        blocks[scatter.lanes] = math.ceil(half / narrowest) * narrowest
    for place in scatter.places:
        while tickets() < wanted and blocks[place.axis] > 1:
            blocks[place.axis] = math.ceil(blocks[place.axis] / 2)
    return blocks


def _sums(scatter: Scatter, combined: Combined, order: Sequence[Axis], blocks: Mapping[Axis, int]) -> _Sums:
    shape = tuple(blocks[axis] for axis in order)
    tensor = Tensor(f"{scatter.stage.tensor.name}.{combined.accumulator.name}", shape, combined.accumulator.dtype)
    buffer = Buffer(tensor, shape, scope=BufferScope.LOCAL, writable=True)
    return _Sums(combined, buffer, tuple(as_expr(axis) for axis in order))


def _walk(
    scatter: Scatter, sums: Sequence[_Sums], order: Sequence[Axis], blocks: Mapping[Axis, int], target: Target
) -> tuple[Statement, ...]:
    """All positions, each combined into the results at its places."""
    placed = {place.axis for place in scatter.places}
    rest = [axis for axis in order if axis not in placed]
    stores = tuple(s.store(_combination(s.combined, s.read())) for s in sums)
    body = _swept(rest, scatter.lanes, blocks, target, stores)
    body = _wrapped([Level(axis, 1) for axis in scatter.inner], body)
    for place in reversed(scatter.places):
        body = (_at(place, body),)
    return _wrapped([Level(axis, 1) for axis in scatter.walked], body)


def _at(place: Place, body: tuple[Statement, ...]) -> Loop:
    return Loop(Level(place.axis, 1), body, lower=place.at, upper=place.at + 1)


def _combination(combined: Combined, before: Term) -> Term:
    dtype = combined.accumulator.dtype
    if combined.accumulator.combine is Combine.SUM:
        return term(Add(), (before, combined.value), dtype)
    if dtype == bool_:
        neither = term(And(), (logical_not(before), logical_not(combined.value)), bool_)
        return logical_not(neither)
    return term(Maximum(), (before, combined.value), dtype)


def _finished(scatter: Scatter, sums: Sequence[_Sums]) -> Term:
    made: dict[str, _Sums] = {s.combined.accumulator.name: s for s in sums}

    def stored(item: Term) -> Term | None:
        return cast(made[item.op.accumulator.name].read(), item.dtype) if isinstance(item.op, ReadAccumulator) else None

    return map_term(scatter.stage.value, stored)


def _neighbour(scatter: Scatter, blocks: Mapping[Axis, int], otherwise: Axis) -> Axis:
    """The data axis of which a ticket has several positions that are neighbours in the result."""
    store = Access(scatter.stage.tensor, scatter.stage.indices)
    return next((a for a in scatter.stage.axes if store.stride(a) == 1.0 and blocks[a] > 1), otherwise)


def _swept(
    order: Sequence[Axis],
    vector: Axis | None,
    blocks: Mapping[Axis, int],
    target: Target,
    body: tuple[Statement, ...],
) -> tuple[Statement, ...]:
    """The statements at every position of a ticket, lanes along `vector`."""
    levels = [Level(axis, 1) for axis in order if axis != vector]
    if vector is not None:
        lanes = target.lanes(f32)
        vectors = max(1, min(_MOST_VECTORS, math.ceil(blocks[vector] / lanes)))
        levels += [Level(vector, lanes * vectors), Level(vector, lanes, LoopKind.VECTOR)]
    return _wrapped(levels, body)


def _wrapped(levels: Sequence[Level], body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    for level in reversed(levels):
        body = (Loop(level, body),)
    return body
