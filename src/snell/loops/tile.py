"""The register tile: which axis fills vector lanes, which axis is unrolled beside it, and how far.

One cost in cycles per multiply-add decides for every nest: loads shared over the tile, independent chains against the
latency of an addition, horizontal sums, and lanes wasted on short axes.  Nothing here knows what the nest computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snell.loops.access import Access, access_of
from snell.loops.stage import Stage
from snell.rewrite.term import Load, Term, walk
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["Tile", "choose_tile", "lanes_of"]

_LATENCY = 4.0
_LOADS_PER_CYCLE = 2.0
_HORIZONTAL = 8.0
_GATHER = 2.0
_PACK_REUSE = 8.0


@dataclass(frozen=True, slots=True)
class Tile:
    """Vector axis with its number of vectors, the unrolled data axis with its count, and the loads worth packing."""

    vector: Axis | None
    lanes: int
    vectors: int
    unrolled: Axis | None = None
    count: int = 1
    chains: int = 1
    packed: tuple[Term, ...] = ()


def lanes_of(stage: Stage, target: Target) -> int:
    """Lanes of one register for the widest type the stage computes in."""
    widest = max((t.dtype.bits for t in walk(*stage.terms()) if _is_computed(t)), default=32)
    return max(1, target.vector_bits // max(32, widest))


def _is_computed(item: Term) -> bool:
    return not isinstance(item.op, Load) and item.dtype.is_float


def choose_tile(stage: Stage, target: Target) -> Tile:
    """The cheapest tile of the stage on the target; ties go to the first candidate, so the choice is deterministic."""
    lanes = lanes_of(stage, target)
    if not stage.partials:
        return _elementwise_tile(stage, lanes)
    best: tuple[float, Tile] | None = None
    for tile in _candidates(stage, lanes, target):
        cost = _cost(stage, tile)
        if best is None or cost < best[0] - 1e-9:
            best = (cost, tile)
    return best[1] if best is not None else Tile(None, 1, 1)


def _elementwise_tile(stage: Stage, lanes: int) -> Tile:
    """Lanes along the axis that most accesses, the store above all, move along by single elements."""
    store = Access(stage.tensor, stage.indices)
    accesses = [access_of(item) for item in stage.loads()]
    axes = [axis for axis in stage.axes if stage.extent(axis) > 1]
    if not axes:
        return Tile(None, 1, 1)

    def badness(axis: Axis) -> float:
        misses = sum(not a.is_vector(axis) for a in accesses) + 1.5 * (store.stride(axis) != 1.0)
        return misses + 2.0 * max(0.0, lanes / stage.extent(axis) - 1.0)

    chosen = min(reversed(axes), key=badness)
    vectors = max(1, min(4, math.ceil(stage.extent(chosen) / lanes)))
    return Tile(chosen, lanes, vectors)


def _candidates(stage: Stage, lanes: int, target: Target) -> Iterator[Tile]:
    accesses = _reduction_accesses(stage)
    data = [axis for axis in stage.axes if stage.extent(axis) > 1]
    for vector in [*reversed(data), *reversed(stage.reduced)]:
        packed = tuple(item for item, a in accesses if not a.is_vector(vector) and _is_packable(stage, item, a, vector))
        for unrolled in [None, *(axis for axis in reversed(data) if axis is not vector)]:
            for vectors in (1, 2, 3, 4):
                for count in (1, 2, 3, 4, 5, 6, 8) if unrolled is not None else (1,):
                    tile = Tile(vector, lanes, vectors, unrolled, count, _chains(stage, vector, vectors, count), packed)
                    if _fits(stage, tile, accesses, target):
                        yield tile
    if not data and not stage.reduced:
        yield Tile(None, 1, 1)


def _chains(stage: Stage, vector: Axis, vectors: int, count: int) -> int:
    """Independent partial sums a tile of few accumulators needs to hide the latency of an addition."""
    if vector in stage.reduced:
        return vectors
    accumulators = vectors * count * len(stage.partials)
    longest = max((stage.extent(axis) for axis in stage.reduced), default=1)
    return int(max(1, min(4, 8 // max(1, accumulators), longest)))


def _reduction_accesses(stage: Stage) -> list[tuple[Term, Access]]:
    loads = dict.fromkeys(t for p in stage.partials for t in walk(p.body) if isinstance(t.op, Load))
    return [(item, access_of(item)) for item in loads]


def _is_packable(stage: Stage, item: Term, access: Access, vector: Axis) -> bool:
    """Copying the operand into the order the tile reads it pays when every element is used many times."""
    if not isinstance(item.op, Load) or access.stride(vector) is None or item.op.tensor.storage is not None:
        return False
    whole = math.prod(stage.extent(axis) for axis in (*stage.axes, *stage.reduced))
    own = math.prod(stage.extent(axis) for axis in access.axes)
    return whole / max(1.0, own) >= _PACK_REUSE


def _fits(stage: Stage, tile: Tile, accesses: Sequence[tuple[Term, Access]], target: Target) -> bool:
    assert tile.vector is not None
    if tile.unrolled is not None and tile.count > max(1.0, stage.extent(tile.unrolled)):
        return False
    if tile.vectors > 1 and tile.lanes * (tile.vectors - 1) >= stage.extent(tile.vector):
        return False
    chains = 1 if tile.vector in stage.reduced else tile.chains
    accumulators = tile.vectors * tile.count * chains * len(stage.partials)
    operands = sum(tile.vectors for _, a in accesses if tile.vector in a.axes and tile.unrolled not in a.axes)
    return accumulators + min(operands, tile.vectors) + 1 <= target.vector_registers


def _cost(stage: Stage, tile: Tile) -> float:
    """Cycles per element of the iteration space."""
    assert tile.vector is not None
    accesses = _reduction_accesses(stage)
    work = tile.vectors * tile.count
    loads = 0.0
    for item, access in accesses:
        along = tile.vectors if tile.vector in access.axes else 1
        across = tile.count if tile.unrolled is not None and tile.unrolled in access.axes else 1
        each = 1.0 if item in tile.packed or access.is_vector(tile.vector) else _GATHER * tile.lanes
        loads += along * across * each
    accumulators = work * (tile.chains if tile.vector not in stage.reduced else 1) * len(stage.partials)
    steps = _LATENCY * work * len(stage.partials) / accumulators
    cycles = max(work * len(stage.partials) / 2.0, loads / _LOADS_PER_CYCLE, steps) + 0.15 * loads
    cycles += _edge_cost(stage, tile, work)
    return cycles / (work * tile.lanes * _lane_use(stage, tile))


def _edge_cost(stage: Stage, tile: Tile, work: int) -> float:
    """Horizontal sums and scattered stores, spread over the length of the reduction."""
    length = math.prod(stage.extent(axis) for axis in stage.reduced)
    store = Access(stage.tensor, stage.indices)
    if tile.vector in stage.reduced:
        steps = max(1.0, length / (tile.lanes * tile.vectors))
        return _HORIZONTAL * tile.count * len(stage.partials) / steps
    scattered = 0.0 if store.stride(tile.vector) in (0.0, 1.0) else tile.lanes * work
    return (work + scattered) / max(1.0, length)


def _lane_use(stage: Stage, tile: Tile) -> float:
    """Share of lanes (and unrolled rows) that hold real elements."""
    assert tile.vector is not None
    extent = stage.extent(tile.vector)
    used = extent / (math.ceil(extent / tile.lanes) * tile.lanes)
    if tile.unrolled is not None:
        rows = stage.extent(tile.unrolled)
        used *= rows / (math.ceil(rows / tile.count) * tile.count) * 0.5 + 0.5
    return max(used, 1e-3)
