"""The register tile: which axis fills vector lanes, which axis is unrolled beside it, and how far.

One cost in cycles per multiply-add decides for every nest: loads shared over the tile, independent chains against the
latency of an addition, horizontal sums, and lanes wasted on short axes.  Nothing here knows what the nest computes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from snell.errors import CompileError
from snell.graph.primitives import Mul
from snell.loops.access import Access, access_of
from snell.loops.copies import copying
from snell.loops.plan import TileChoice
from snell.loops.stage import Stage
from snell.loops.tensor import TensorAxis, tensor_axis
from snell.loops.traffic import (
    LONG_JUMP,
    PASS_LENGTH,
    Traffic,
    elements_used,
    inner_terms,
    is_packed_once,
    load_price,
    restarts,
    traffic,
)  # fmt: skip
from snell.rewrite.term import Cast, Load, Term, children, walk
from snell.symbolic import Axis
from snell.targets import Target

__all__ = [
    "Tile",
    "choose_tile",
    "lanes_of",
    "ordered_reductions",
    "possible_tiles",
    "reduced_rank",
    "unrolled_reductions",
]

_VECTORS, _COUNTS = (1, 2, 3, 4), (1, 2, 3, 4, 5, 6, 8)
_MOST_VECTORS, _MOST_ROWS = 8, 16  # that a search tries
_UNROLL = 4
_DECODING = 6  # registers that converting operands takes in flight; fewer make the register allocator spill (measured)
_LATENCY = 4.0
_TENSOR_LATENCY = 6.0
_LOADS_PER_CYCLE = 2.0
_OPERATIONS_PER_CYCLE = 2.5
_HORIZONTAL = 8.0
_SCATTER = 3.0
_MAKING_WORDS = 2.0  # of an element that does not lie in memory as its word: loaded, moved to its place, joined
_PACK_REUSE = 8.0
_LARGE = 16384.0
_LONG_REUSE = 16.0
_FROZEN_REUSE = 4.0  # a weight is packed once, before the first call


@dataclass(frozen=True, slots=True)
class Tile:
    """Vector axis with its number of vectors, the unrolled data axis with its count, and the subterms worth packing.

    `tensor` names the reduced axis that an instruction takes in groups, None where none does.
    """

    vector: Axis | None
    lanes: int
    vectors: int
    unrolled: Axis | None = None
    count: int = 1
    chains: int = 1
    packed: tuple[Term, ...] = ()
    rows_outer: bool = False
    tensor: TensorAxis | None = None


def lanes_of(stage: Stage, target: Target) -> int:
    """Lanes of one register for the widest type the stage computes in; what has no axes is worked out once, in no lanes."""
    widest = max((t.dtype.bits for t in walk(*stage.terms()) if _is_computed(t)), default=32)
    return max(1, target.vector_bits // max(32, widest))


def _is_computed(item: Term) -> bool:
    return not isinstance(item.op, Load) and item.dtype.is_float and bool(item.free)


def choose_tile(stage: Stage, target: Target, choice: TileChoice | None = None) -> Tile:
    """The cheapest tile of the stage on the target, or the chosen one; CompileError where that is none of the stage's.

    Ties go to the first candidate, so the choice is deterministic.
    """
    if any(axis.extent == 0 for axis in stage.axes):
        return Tile(None, 1, 1)  # nothing runs, and a buffer without elements has no strides for lanes
    lanes = lanes_of(stage, target)
    if choice is not None:
        return _chosen_tile(stage, lanes, choice, target)
    if not stage.partials:
        return _elementwise_tile(stage, lanes)
    best: tuple[float, Tile] | None = None
    for frame in _frames(stage, lanes, target):
        for vectors, count, chains in frame.counts(_VECTORS, _COUNTS, target):
            cost = frame.cost(vectors, count, chains)
            if best is None or cost < best[0] - 1e-9:
                best = (cost, frame.tile(vectors, count, chains))
    return best[1] if best is not None else Tile(None, 1, 1)


def possible_tiles(stage: Stage, target: Target) -> Iterator[tuple[float, TileChoice]]:
    """Every tile that a search may try, and its cost in cycles per element of the iteration space."""
    lanes = lanes_of(stage, target)
    places = {axis: place for place, axis in enumerate((*stage.axes, *stage.reduced))}
    if not stage.partials:
        for axis in (axis for axis in stage.axes if stage.extent(axis) > 1):
            for vectors in range(1, _MOST_VECTORS + 1):
                yield 1.0 / vectors, TileChoice(places[axis], None, False, vectors, 1, 1)
        return
    for frame in _frames(stage, lanes, target):
        unrolled = None if frame.unrolled is None else places[frame.unrolled]
        counts = range(1, _MOST_VECTORS + 1), range(1, _MOST_ROWS + 1)
        for vectors, count, chains in frame.counts(*counts, target):
            tile = TileChoice(
                places[frame.vector], unrolled, bool(frame.packed), vectors, count, chains, frame.tensor is not None
            )
            yield frame.cost(vectors, count, chains), tile


def _chosen_tile(stage: Stage, lanes: int, choice: TileChoice, target: Target) -> Tile:
    axes = (*stage.axes, *stage.reduced)
    if max(choice.vector, choice.unrolled or 0) >= len(axes):
        raise CompileError(f"the tile {choice} is one of another stage; this one has {len(axes)} axes")
    vector, unrolled = axes[choice.vector], None if choice.unrolled is None else axes[choice.unrolled]
    if not stage.partials:
        return Tile(vector, lanes, choice.vectors)
    for frame in _frames(stage, lanes, target):
        tensor = frame.tensor is not None
        if (frame.vector, frame.unrolled, bool(frame.packed), tensor) == (
            vector,
            unrolled,
            choice.packs,
            choice.tensor,
        ):
            return frame.tile(choice.vectors, choice.count, choice.chains)
    raise CompileError(f"the stage has no tile {choice}; drop the record it comes from")


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


def _frames(stage: Stage, lanes: int, target: Target) -> Iterator[_Frame]:
    """Every choice of vector axis and unrolled axis, with what the inner loop then loads."""
    data = [axis for axis in stage.axes if stage.extent(axis) > 1]
    store = Access(stage.tensor, stage.indices)
    found = tensor_axis(stage, target)
    choices: list[tuple[Axis, TensorAxis | None]] = [
        (vector, None) for vector in [*reversed(data), *reversed(stage.reduced)]
    ]
    if found is not None and found.lanes == lanes:
        choices += [(vector, found) for vector in reversed(data)]
    for vector, tensor in choices:
        steps = (dict(unrolled_reductions(stage, vector, 1)), dict(unrolled_reductions(stage, vector, 2)))
        roots = tensor.factors if tensor is not None else tuple(partial.body for partial in stage.partials)
        for unrolled, packed in _with_packing(stage, vector, data, roots):
            operands = tuple(_operands(stage, packed, vector, unrolled, lanes, tensor, target))
            order = tuple(ordered_reductions(stage, vector))
            inner = inner_terms(stage, packed)
            if tensor is not None:  # the instruction converts
                inner = [item for item in inner if not (isinstance(item.op, Cast) and item.args[0] in roots)]
            work = _operations(stage, inner)
            decodes = any(isinstance(item.op, Cast) for item in inner)
            once = copying(stage, packed, vector, unrolled, target)
            begun = restarts(stage, packed, unrolled, target)
            moved = tuple(traffic(stage, packed, vector, unrolled, lanes, target))
            yield _Frame(
                stage, vector, unrolled, lanes, packed, operands, store, decodes, steps, order, work, once, begun,
                moved, tensor,
            )  # fmt: skip


def _with_packing(
    stage: Stage, vector: Axis, data: list[Axis], roots: tuple[Term, ...]
) -> Iterator[tuple[Axis | None, tuple[Term, ...]]]:
    """Unrolled axes with the operands worth packing beside them; also without packing what could be read in place."""
    for unrolled in [None, *(axis for axis in reversed(data) if axis is not vector)]:
        packed = _packed_operands(stage, vector, unrolled, roots)
        yield unrolled, packed
        if packed and all(isinstance(t.op, Load) and access_of(t).is_vector(vector) for t in packed):
            yield unrolled, ()


def _operations(stage: Stage, inner: list[Term]) -> tuple[frozenset[Axis], ...]:
    """What each arithmetic operation of the inner loop depends on; the last product goes into the sum for nothing."""
    products = {p.body for p in stage.partials if isinstance(p.body.op, Mul)}
    return tuple(item.free for item in inner if item.args and item not in products)


def unrolled_reductions(stage: Stage, vector: Axis | None, chains: int) -> tuple[tuple[Axis, int], ...]:
    """Reduced axes to unroll and how far, innermost first: short ones whole, the innermost long one by a few."""
    found: list[tuple[Axis, int]] = []
    budget = 2 * _UNROLL
    for axis in reversed(ordered_reductions(stage, vector)):
        extent = axis.extent if isinstance(axis.extent, int) else None
        if extent is not None and extent <= budget:
            found.append((axis, max(1, extent)))
            budget //= max(1, extent)
        elif budget >= _UNROLL and vector not in stage.reduced and (extent is not None or chains > 1):
            found.append((axis, _UNROLL))
            budget = 1
    return tuple(found)


def ordered_reductions(stage: Stage, vector: Axis | None) -> list[Axis]:
    """Loop order of reduced axes other than the vector's: the order in which the largest operand lies in memory."""
    return sorted((axis for axis in stage.reduced if axis != vector), key=lambda axis: -reduced_rank(stage, axis))


def reduced_rank(stage: Stage, axis: Axis) -> float:
    """The stride along the axis of the largest operand that has it."""
    loads = [item for item in stage.loads() if access_of(item).stride(axis) not in (None, 0.0)]
    return abs(access_of(max(loads, key=lambda item: elements_used(stage, item))).stride(axis) or 0.0) if loads else 0.0


@dataclass(frozen=True, slots=True)
class _Operand:
    """What the inner loop loads, a packed subterm or a load in place, and how it moves with the tile."""

    free: frozenset[Axis]
    loads: float


@dataclass(frozen=True, slots=True)
class _Frame:
    """The axes of a tile; the counts along them are judged by `cost`.

    `decodes`: operands are converted in the inner loop, which takes registers beside the product's own.
    """

    stage: Stage
    vector: Axis
    unrolled: Axis | None
    lanes: int
    packed: tuple[Term, ...]
    operands: tuple[_Operand, ...]
    store: Access
    decodes: bool
    steps: tuple[dict[Axis, int], dict[Axis, int]]
    order: tuple[Axis, ...]
    operations: tuple[frozenset[Axis], ...]
    once: float
    restarts: float
    traffic: tuple[Traffic, ...]
    tensor: TensorAxis | None

    @property
    def reduces_lanes(self) -> bool:
        return self.vector in self.stage.reduced

    def chains(self, vectors: int, count: int) -> tuple[int, ...]:
        """How many independent sums each unrolled row may keep: one, or enough to hide the latency of an addition."""
        if self.reduces_lanes:
            return (1,) if vectors == 1 else (1, vectors)
        accumulators = vectors * count * len(self.stage.partials)
        longest = max((self.stage.extent(axis) for axis in self.stage.reduced), default=1)
        return (int(max(1, min(4, 8 // max(1, accumulators), longest))),)

    def counts(self, vectors: Iterable[int], counts: Iterable[int], target: Target) -> Iterator[tuple[int, int, int]]:
        """Registers along the vector axis, unrolled rows and chains that fit the nest and the registers."""
        rows = tuple(counts) if self.unrolled is not None else (1,)
        for width, count in itertools.product(vectors, rows):
            for chains in self.chains(width, count):
                if self.fits(width, count, chains, target):
                    yield width, count, chains

    def accumulators(self, vectors: int, count: int, chains: int) -> int:
        """Registers of sums: lanes of a reduced vector axis are partial sums already."""
        return (1 if self.reduces_lanes else vectors) * count * chains * len(self.stage.partials)

    def fits(self, vectors: int, count: int, chains: int, target: Target) -> bool:
        """The tile is no larger than the nest, and its accumulators and shared operands fit the registers."""
        if self.unrolled is not None and count > max(1.0, self.stage.extent(self.unrolled)):
            return False
        if vectors > 1 and self.lanes * (vectors - 1) >= self.stage.extent(self.vector):
            return False
        accumulators = self.accumulators(vectors, count, chains)
        held = min(self._held(vectors, count, chains, order) for order in (False, True))
        return accumulators + held + (_DECODING if self.decodes else 1) <= target.vector_registers

    def tile(self, vectors: int, count: int, chains: int) -> Tile:
        """The tile with these counts, in the order of unrolled levels that keeps fewer operands in registers."""
        rows_outer = self._held(vectors, count, chains, True) < self._held(vectors, count, chains, False)
        return Tile(
            self.vector, self.lanes, vectors, self.unrolled, count, chains, self.packed, rows_outer, self.tensor
        )

    def _held(self, vectors: int, count: int, chains: int, rows_outer: bool) -> int:
        """Registers for operands used more than once: round the innermost loop, across rows, or across positions."""
        steps = self.steps[min(chains, 2) - 1]
        loop = self._innermost_loop(vectors, steps)
        total = 0
        for operand in self.operands:
            width = vectors if self.vector in operand.free else 1
            positions = math.prod(step for axis, step in steps.items() if axis in operand.free)
            on_rows = self.unrolled in operand.free
            if loop is not None and loop not in operand.free:
                total += width * positions * (count if on_rows else 1)
            elif not on_rows:
                total += width * (positions if rows_outer else 1) if count > 1 else 0
            elif positions == 1 and not (self.reduces_lanes and self.vector in operand.free):
                total += width if rows_outer or not steps else width * count
        return total

    def _innermost_loop(self, vectors: int, steps: dict[Axis, int]) -> Axis | None:
        """The reduced axis whose run-time loop is innermost, None where everything is unrolled."""
        if self.reduces_lanes and self.stage.extent(self.vector) > vectors * self.lanes:
            return self.vector
        serial = [a for a in self.order if self.stage.extent(a) > steps.get(a, 1)]
        return serial[-1] if serial else None

    def cost(self, vectors: int, count: int, chains: int) -> float:
        """Cycles per element of the iteration space."""
        sums = len(self.stage.partials)
        work = vectors * count
        loads = sum(operand.loads * self._width(operand.free, vectors, count) for operand in self.operands)
        arithmetic = sum(self._width(free, vectors, count) for free in self.operations)
        additions = vectors if self.reduces_lanes else 1
        group = self.tensor.group if self.tensor is not None else 1
        steps = (_TENSOR_LATENCY if self.tensor is not None else _LATENCY) * additions / max(1, chains)
        cycles = (
            max(work * sums / 2.0, loads / _LOADS_PER_CYCLE, arithmetic / _OPERATIONS_PER_CYCLE, steps) + 0.15 * loads
        )
        cycles = cycles / group + self._edge_cost(vectors, count, chains)
        moved = sum(operand.cost(vectors, count) for operand in self.traffic)
        return (
            cycles / (work * self.lanes * self._use(vectors, count))
            + moved
            + self.once
            + (self.restarts if count > 1 else 0.0)
        )

    def _width(self, free: frozenset[Axis], vectors: int, count: int) -> int:
        """Registers of a value in one step of the tile."""
        along = vectors if self.vector in free else 1
        return along * (count if self.unrolled is not None and self.unrolled in free else 1)

    def _edge_cost(self, vectors: int, count: int, chains: int) -> float:
        """Horizontal sums and scattered stores, spread over the length of the reduction."""
        length = math.prod(self.stage.extent(axis) for axis in self.stage.reduced)
        if self.unrolled is not None:
            length = min(length, PASS_LENGTH)  # each pass stores the result
        if self.reduces_lanes:
            steps = max(1.0, length / (self.lanes * vectors))
            return (_HORIZONTAL + chains) * count * len(self.stage.partials) / steps
        work = vectors * count
        scattered = 0.0 if self.store.stride(self.vector) in (0.0, 1.0) else _SCATTER * self.lanes * work
        return (work + scattered) / max(1.0, length)

    def _use(self, vectors: int, count: int) -> float:
        """Share of lanes (and unrolled rows) that hold real elements."""
        extent = self.stage.extent(self.vector)
        used = extent / (math.ceil(extent / self.lanes) * self.lanes)
        if not self.reduces_lanes:
            panel = vectors * self.lanes
            used *= extent / (math.ceil(extent / panel) * panel) * 0.5 + 0.5
        if self.unrolled is not None:
            rows = self.stage.extent(self.unrolled)
            used *= rows / (math.ceil(rows / count) * count) * 0.5 + 0.5
        return max(used, 1e-3)


def _operands(
    stage: Stage,
    packed: tuple[Term, ...],
    vector: Axis,
    unrolled: Axis | None,
    lanes: int,
    tensor: TensorAxis | None,
    target: Target,
) -> list[_Operand]:
    found: dict[Term, _Operand] = {}
    stack = [partial.body for partial in stage.partials]
    while stack:
        item = stack.pop()
        if item in packed:
            found[item] = _Operand(item.free, 1.0)
        elif isinstance(item.op, Load):
            price = load_price(stage, item, vector, unrolled, lanes, target)
            if tensor is not None and not tensor.is_word(item):
                price *= _MAKING_WORDS * tensor.group
            found[item] = _Operand(item.free, price)
        stack.extend(() if item in packed else children(item))
    return list(found.values())


def _packed_operands(stage: Stage, vector: Axis, unrolled: Axis | None, roots: tuple[Term, ...]) -> tuple[Term, ...]:
    """The largest subterms that every unrolled row shares and that are worth copying into the tile's order."""
    if unrolled is None or vector in stage.reduced:
        return ()
    found: dict[Term, None] = {}
    stack = list(roots)
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
    if whole / max(1.0, own) < (_FROZEN_REUSE if is_packed_once(item) else _PACK_REUSE) or not item.free <= set(known):
        return False
    if any(isinstance(t.op, Load) and t.op.tensor in stage.inside for t in walk(item)):
        return False
    if stage.rows in item.free:  # packed once a ticket, before its rows are walked
        return False
    loads = [access_of(t) for t in walk(item) if isinstance(t.op, Load)]
    if not isinstance(item.op, Load) or not all(a.is_vector(vector) for a in loads):
        return True
    jump = max((abs(a.stride(axis) or 0.0) for a in loads for axis in stage.reduced), default=0.0)
    reuse = _FROZEN_REUSE if is_packed_once(item) else _LONG_REUSE
    return jump * item.dtype.itemsize >= LONG_JUMP and own * item.dtype.itemsize > _LARGE and whole / own >= reuse
