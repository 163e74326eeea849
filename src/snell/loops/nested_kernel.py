"""The kernel of a nested sum: packed weights, and for each tile of rows and lanes a float sum of whole sums.

    tickets over the data axes
      panels of lanes, tiles of rows
        total = 0
        for the outer reduced axes
          for rows:  whole = 0;  whole += groups of the inner axes, by the instruction;  total += f(whole)
        result = g(total)

Weights are packed once, in the order in which this nest reads them; codes of few bits share bytes (`loops.code_planes`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from snell.dtypes import f32
from snell.graph.primitives import Add
from snell.loops.access import access_of
from snell.loops.code_planes import grouped_products
from snell.loops.ir import (
    Accumulator,
    Buffer,
    BufferScope,
    Combine,
    Init,
    Level,
    Loop,
    LoopKind,
    Phase,
    ReadAccumulator,
    Statement,
    Store,
    Update,
    read,
)  # fmt: skip
from snell.loops.nested import NestedSum, nested_value
from snell.loops.packing import Packing, packed_operand
from snell.loops.stage import map_term
from snell.loops.tensor import TensorAxis
from snell.rewrite.term import Cast, Load, Term, cast, load, number, walk
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["NestedKernel", "nested_kernel"]

_PIECES = 8  # tickets a thread
_TICKET_ROWS = 128
_MOST_COUNT, _MOST_VECTORS = 16, 4
_TAKEN = 3  # registers beside sums and weights

Keep = Callable[[Packing, Buffer], Buffer]
"""The buffer of a weight that is packed once, under its lasting name."""


@dataclass(frozen=True, slots=True)
class NestedKernel:
    """The phase that computes, the stage as it reads packed weights, and the copies that make them."""

    phase: Phase
    reads: tuple[Term, ...]
    copies: tuple[tuple[Packing, Buffer], ...]


@dataclass(frozen=True, slots=True)
class _Tile:
    """Lanes of the instruction, registers of lanes, and rows."""

    lanes: int
    vectors: int
    count: int

    @property
    def width(self) -> int:
        return self.lanes * self.vectors


@dataclass(slots=True)
class _Packs:
    """Packed weights of one kernel: each term once."""

    nested: NestedSum
    keep: Keep
    copies: list[tuple[Packing, Buffer]]
    known: dict[Term, Term]

    def packed(self, item: Term, grouped: Axis | None = None) -> Term:
        """The load of the packed term."""
        if item not in self.known:
            nested = self.nested
            tensor = None
            if grouped is not None:
                tensor = TensorAxis(grouped, nested.row.group, nested.row.lanes, (item,))
            inner = [axis for axis in item.free if axis == grouped or axis in nested.inner]
            outer = [axis for axis in _serial_order(nested) if axis in item.free]
            order = (*outer, *sorted(inner, key=lambda axis: (axis == grouped, -_stride(nested, axis))))
            buffer, stage = packed_operand(
                nested.stage, item, nested.vector, nested.row.lanes, order, tensor, len(self.copies)
            )
            copy = Packing(stage, nested.vector, nested.row.lanes, tensor)
            kept = self.keep(copy, replace(buffer, scope=BufferScope.PARAMETER))
            self.copies.append((copy, kept))
            self.known[item] = load(kept.tensor, stage.indices)
        return self.known[item]


def nested_kernel(nested: NestedSum, target: Target, threads: int, keep: Keep) -> NestedKernel:
    """The kernel; `keep` names the buffers of packed weights."""
    stage = nested.stage
    packs = _Packs(nested, keep, [], {})
    products = grouped_products(nested, packs.packed)
    total = Accumulator(f"{stage.tensor.name}.total", Combine.SUM, f32, stage.axes)
    whole = Accumulator(f"{stage.tensor.name}.whole", Combine.SUM, nested.row.accumulator, stage.axes)
    body = nested_value(stage.partials[0].body, nested.product, cast(read(whole), f32), frozenset(nested.inner))
    assert body is not None
    added = tuple(Update(total, _with_packed(part, nested, packs)) for part in _addends(body))
    tile = _tile(nested, target)
    updates = tuple(Update(whole, product) for product in products.products)
    sums = _sums(nested, tile, products.axes, updates, Init(whole, _zero(whole)))
    block = _over_rows(nested, (*sums, *_lanes(nested, tile, added)))
    for axis in reversed(_serial_order(nested)):
        block = (Loop(Level(axis, 1), block),)
    value = map_term(stage.value, lambda item: read(total) if isinstance(item.op, ReadAccumulator) else None)
    nest = (
        *_over_rows(nested, _lanes(nested, tile, (Init(total, _zero(total)),))),
        *block,
        *_over_rows(nested, _lanes(nested, tile, (Store(stage.tensor, stage.indices, value),))),
    )
    tickets, tiles = _levels(nested, tile, threads)
    for level in reversed(tiles):
        nest = (Loop(level, nest),)
    reads = (*products.products, *(update.value for update in added), value)
    return NestedKernel(Phase(tickets, nest), reads, tuple(packs.copies))


def _zero(accumulator: Accumulator) -> Term:
    return number(0, accumulator.dtype)


def _serial_order(nested: NestedSum) -> list[Axis]:
    """As the rows' positions follow each other, whatever the weight's format: programs on one weight share its copy."""
    return sorted(nested.outer, key=lambda axis: -_stride(nested, axis))


def _stride(nested: NestedSum, axis: Axis) -> float:
    """How far apart the rows' neighbours along an axis lie."""
    return access_of(nested.other).stride(axis) or 0.0


def _sums(
    nested: NestedSum, tile: _Tile, inner: Sequence[Axis], updates: tuple[Update, ...], init: Init
) -> tuple[Statement, ...]:
    """A row's whole sum of one block."""
    group = nested.row.group
    body: tuple[Statement, ...] = (Loop(Level(inner[-1], group, LoopKind.TENSOR), updates),)
    body = _lanes(nested, tile, body)
    for axis in reversed(inner):
        body = (Loop(Level(axis, group if axis == inner[-1] else 1, LoopKind.UNROLLED), body),)
    return (*_lanes(nested, tile, (init,)), *body)


def _lanes(nested: NestedSum, tile: _Tile, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return (Loop(Level(nested.vector, tile.lanes, LoopKind.VECTOR), body),)


def _over_rows(nested: NestedSum, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return body if nested.rows is None else (Loop(Level(nested.rows, 1, LoopKind.UNROLLED), body),)


def _addends(item: Term) -> tuple[Term, ...]:
    """The parts of a sum, each a fused multiply-add of its own."""
    return tuple(part for side in item.args for part in _addends(side)) if isinstance(item.op, Add) else (item,)


def _with_packed(item: Term, nested: NestedSum, packs: _Packs) -> Term:
    """The term reading packed weights: its largest parts that weights alone determine, stored as narrow as they are."""

    def swap(part: Term) -> Term | None:
        loads = [t.op.tensor for t in walk(part) if isinstance(t.op, Load)]
        if not loads or not all(tensor.frozen for tensor in loads) or nested.vector not in part.free:
            return None
        if isinstance(part.op, Cast) and part.args[0].dtype.bits >= 8:
            return cast(packs.packed(part.args[0]), part.dtype)
        return packs.packed(part)

    return map_term(item, swap)


def _tile(nested: NestedSum, target: Target) -> _Tile:
    """As many rows as registers hold beside the weights of a block; with few rows, lanes enough to hide latencies."""
    lanes = nested.row.lanes
    words = math.prod(axis.extent for axis in nested.inner if isinstance(axis.extent, int)) // nested.row.group
    rows = 1.0 if nested.rows is None else nested.stage.extent(nested.rows)
    wanted = min(_MOST_COUNT, 1 << max(0, math.ceil(math.log2(max(1.0, rows)))))
    held = min(words, target.vector_registers // 4)
    count = max(1, min(wanted, target.vector_registers - held - _TAKEN))
    panels = math.ceil(nested.stage.extent(nested.vector) / lanes)
    free = (target.vector_registers - _TAKEN) // (held + count) if count > 1 else _MOST_VECTORS
    return _Tile(lanes, max(1, min(_MOST_VECTORS, free, panels)), count)


def _levels(nested: NestedSum, tile: _Tile, threads: int) -> tuple[tuple[Level, ...], tuple[Level, ...]]:
    """Levels of tickets, and of the tiles inside of one."""
    stage, rows, vector = nested.stage, nested.rows, nested.vector
    tickets = [Level(axis, 1) for axis in stage.axes if axis not in (rows, vector)]
    tiles = [Level(vector, tile.width)]
    made = math.prod(stage.extent(level.axis) for level in tickets)
    if rows is not None:
        step = math.ceil(min(_TICKET_ROWS, stage.extent(rows)) / tile.count) * tile.count
        tickets.append(Level(rows, step))
        tiles.append(Level(rows, tile.count))
        made *= math.ceil(stage.extent(rows) / step)
    pieces = max(1.0, _PIECES * threads / made)
    width = max(1, math.ceil(stage.extent(vector) / pieces / tile.width)) * tile.width
    tickets.append(Level(vector, width))
    return tuple(tickets), tuple(tiles)
