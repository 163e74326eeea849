"""The register tile: which axis fills vector lanes, which axis is unrolled beside it, and how far.

One cost in cycles per multiply-add decides for every nest: loads shared over the tile, independent chains against the
latency of an addition, horizontal sums, and lanes wasted on short axes.  Nothing here knows what the nest computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from snell.loops.access import Access, access_of
from snell.loops.stage import Stage
from snell.rewrite.term import Load, Term, children, walk
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["Tile", "choose_tile", "lanes_of"]

_LATENCY = 4.0
_LOADS_PER_CYCLE = 2.0
_HORIZONTAL = 8.0
_GATHER = 2.0
_PACK_REUSE = 8.0
_LONG_JUMP = 256.0
_LARGE = 16384.0
_LONG_REUSE = 32.0


@dataclass(frozen=True, slots=True)
class Tile:
    """Vector axis with its number of vectors, the unrolled data axis with its count, and the subterms worth packing."""

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
    data = [axis for axis in stage.axes if stage.extent(axis) > 1]
    for vector in [*reversed(data), *reversed(stage.reduced)]:
        for unrolled in [None, *(axis for axis in reversed(data) if axis is not vector)]:
            packed = _packed_operands(stage, vector, unrolled)
            for vectors in (1, 2, 3, 4):
                for count in (1, 2, 3, 4, 5, 6, 8) if unrolled is not None else (1,):
                    tile = Tile(vector, lanes, vectors, unrolled, count, _chains(stage, vector, vectors, count), packed)
                    if _fits(stage, tile, target):
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


@dataclass(frozen=True, slots=True)
class _Operand:
    """What the inner loop loads: a packed subterm, or a load read in place."""

    free: frozenset[Axis]
    access: Access | None

    def cost(self, vector: Axis, lanes: int) -> float:
        """Load instructions for one register of it."""
        if self.access is None or self.access.is_vector(vector):
            return 1.0
        return _GATHER * lanes


def _operands(stage: Stage, packed: tuple[Term, ...]) -> list[_Operand]:
    found: dict[Term, _Operand] = {}
    stack = [partial.body for partial in stage.partials]
    while stack:
        item = stack.pop()
        if item in packed:
            found[item] = _Operand(item.free, None)
        elif isinstance(item.op, Load):
            found[item] = _Operand(item.free, access_of(item))
        stack.extend(() if item in packed else children(item))
    return list(found.values())


def _packed_operands(stage: Stage, vector: Axis, unrolled: Axis | None) -> tuple[Term, ...]:
    """The largest subterms that every unrolled row shares and that are worth copying into the tile's order."""
    if unrolled is None or vector in stage.reduced:
        return ()
    found: dict[Term, None] = {}
    stack = [partial.body for partial in stage.partials]
    while stack:
        item = stack.pop()
        if unrolled in item.free or vector not in item.free:
            stack.extend(children(item))
        elif item.free & set(stage.reduced) and _worth_packing(stage, item, vector):
            found[item] = None
    return tuple(found)


def _worth_packing(stage: Stage, item: Term, vector: Axis) -> bool:
    """Used often enough, and read in place only with gathers, with arithmetic, or with long jumps."""
    known = (*stage.axes, *stage.reduced)
    whole = math.prod(stage.extent(axis) for axis in known)
    own = math.prod(stage.extent(axis) for axis in known if axis in item.free)
    if whole / max(1.0, own) < _PACK_REUSE or not item.free <= set(known):
        return False
    loads = [access_of(t) for t in walk(item) if isinstance(t.op, Load)]
    if not isinstance(item.op, Load) or not all(a.is_vector(vector) for a in loads):
        return True
    jump = max((abs(a.stride(axis) or 0.0) for a in loads for axis in stage.reduced), default=0.0)
    return jump * item.dtype.itemsize >= _LONG_JUMP and own * item.dtype.itemsize >= _LARGE and whole / own >= _LONG_REUSE


def _fits(stage: Stage, tile: Tile, target: Target) -> bool:
    assert tile.vector is not None
    if tile.unrolled is not None and tile.count > max(1.0, stage.extent(tile.unrolled)):
        return False
    if tile.vectors > 1 and tile.lanes * (tile.vectors - 1) >= stage.extent(tile.vector):
        return False
    chains = 1 if tile.vector in stage.reduced else tile.chains
    accumulators = tile.vectors * tile.count * chains * len(stage.partials)
    shared = any(tile.vector in o.free and tile.unrolled not in o.free for o in _operands(stage, tile.packed))
    return accumulators + (tile.vectors if shared else 0) + 1 <= target.vector_registers


def _cost(stage: Stage, tile: Tile) -> float:
    """Cycles per element of the iteration space."""
    assert tile.vector is not None
    work = tile.vectors * tile.count
    loads = 0.0
    for operand in _operands(stage, tile.packed):
        along = tile.vectors if tile.vector in operand.free else 1
        across = tile.count if tile.unrolled is not None and tile.unrolled in operand.free else 1
        loads += along * across * operand.cost(tile.vector, tile.lanes)
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
