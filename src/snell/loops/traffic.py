"""What bringing operands in costs a nest: streams and cache sets, reading again, copying; in cycles.

The register tile weighs these against its arithmetic.  The constants are of caches as processors have had them for years
(lines of 64 bytes, eight ways, pages of 4 KiB) and of measurements on one; only their order of magnitude matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from snell.loops.access import access_of
from snell.loops.stage import Stage
from snell.rewrite.term import Cast, Load, Term, children, walk
from snell.symbolic import Axis
from snell.targets import Target

__all__ = [
    "LONG_JUMP", "MANY_ROWS", "PASS_LENGTH", "Traffic", "elements_used", "inner_terms", "is_cold", "is_packed_once",
    "load_price", "restarts", "traffic",
]  # fmt: skip

MANY_ROWS = 16.0  # from so many rows on, a panel is used again from the cache; fewer let the operand stream through
LONG_JUMP = 256.0  # bytes between rows from which reading them in place has its price
PASS_LENGTH = 256.0  # terms of a pass over a long reduction: a panel of it stays in the first-level cache
_RUN_START = 500.0  # cycles until a stream from memory is prefetched at full rate (measured: 1 cycle a 576-byte row)
_GATHER = 2.0
_COLD_BYTE, _NEAR_BYTE = 0.15, 0.02  # cycles a byte from memory (or the last cache), and from the second-level cache
_BLOCK_TILES = 32  # tiles of a block, as schedules make them
_PAGE = 2048.0
_FAR, _FARTHER = 1.3, 2.0  # loads that a load amounts to where rows lie far apart, or on pages of their own
_CONFLICT, _FAR_CONFLICT = 6.0, 12.0  # the same where the rows of a pass do not fit their sets
_STAGED = 24  # registers of lanes that share an operand before a block of it is copied to be dense (loops.staging)


def elements_used(stage: Stage, item: Term) -> float:
    """How many elements of a term the nest uses."""
    return math.prod(stage.extent(axis) for axis in (*stage.axes, *stage.reduced) if axis in item.free)


def is_cold(stage: Stage, item: Term, target: Target) -> bool:
    """Whether a load comes from memory: weights, and operands larger than the second-level cache."""
    assert isinstance(item.op, Load)
    return item.op.tensor.frozen or elements_used(stage, item) * item.dtype.bits / 8 > target.l2_bytes


def inner_terms(stage: Stage, packed: tuple[Term, ...]) -> list[Term]:
    """The terms that the inner loop evaluates: all of the bodies but what is inside packed subterms."""
    found: dict[Term, None] = {}
    stack = [partial.body for partial in stage.partials]
    while stack:
        item = stack.pop()
        if item not in found and item not in packed:
            found[item] = None
            stack.extend(children(item))
    return list(found)


def is_packed_once(item: Term) -> bool:
    """A plain weight, or one rounded to fewer bits: its copy replaces it, made before the first call.

    (Decoded weights would grow, so they are not.)
    """
    if isinstance(item.op, Cast) and item.dtype.bits < item.args[0].dtype.bits:
        item = item.args[0]
    return isinstance(item.op, Load) and item.op.tensor.frozen and item.op.tensor.storage is None


def load_price(stage: Stage, item: Term, vector: Axis, unrolled: Axis | None, lanes: int, target: Target) -> float:
    """Loads that one load amounts to: gathers take one a lane, rows far apart cost translations and cache lines.

    Where few rows share it, an operand is streamed through in passes, and lines do not wait to be used again.
    """
    access = access_of(item)
    if not access.is_vector(vector):
        return _GATHER * lanes
    shared = vector not in item.free
    if shared and (unrolled is None or stage.extent(vector) >= _STAGED * lanes):
        return 1.0  # (read where it is made dense, or once)
    jumps = {axis: abs(access.stride(axis) or 0.0) * item.dtype.itemsize for axis in stage.reduced}
    jump = max(jumps.values(), default=0.0)
    if jump < LONG_JUMP:
        return 1.0
    if not shared and _rows_sharing(stage, item) < MANY_ROWS:
        return _FAR
    held = min(PASS_LENGTH, math.prod(stage.extent(axis) for axis in stage.reduced if jumps[axis] >= LONG_JUMP))
    price = _FAR if jump < _PAGE else _FARTHER
    if held > _rows_held(target.l2_bytes, target.l2_ways, jump):
        price = _FAR_CONFLICT
    elif held > _rows_held(target.l1_bytes, target.l1_ways, jump):
        price = _CONFLICT
    adjacent = shared and unrolled is not None and access.stride(unrolled) == 1.0
    return 1.0 + (price - 1.0) / 2 if adjacent else price


def _rows_sharing(stage: Stage, item: Term) -> float:
    """How many rows of the result use the same lanes of an operand."""
    return math.prod(stage.extent(axis) for axis in stage.axes if axis not in item.free)


def _rows_held(cache_bytes: int, ways: int, jump: float) -> float:
    """How many lines so many bytes apart a cache holds: those as far apart as its sets reach share a set."""
    period = cache_bytes // ways
    return cache_bytes / math.gcd(int(jump), period)


def restarts(stage: Stage, packed: tuple[Term, ...], unrolled: Axis | None, target: Target) -> float:
    """Cycles per element of the iteration space that memory loses where unrolled rows break one stream into short ones.

    Rows read one after the other are a single run through memory; several at once are runs of one row's length, and the
    hardware starts prefetching anew for each.  It matters for weights and for operands larger than the second-level cache.
    """
    if unrolled is None:
        return 0.0
    whole = math.prod(stage.extent(axis) for axis in (*stage.axes, *stage.reduced))
    total = 0.0
    for item in (t for t in inner_terms(stage, packed) if isinstance(t.op, Load)):
        access = access_of(item)
        reduced = [axis for axis in access.axes if axis in stage.reduced]
        if access.stride(unrolled) not in (0.0, 1.0) and is_cold(stage, item, target):
            run = math.prod(stage.extent(axis) for axis in reduced)
            total += _RUN_START / max(1.0, run) * elements_used(stage, item) / whole
    return total


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one operand costs to bring in, from memory or from the second-level cache, for a choice of tile.

    `once` is its cycles per element of the iteration space were it read once, `again` the number of positions of data axes
    that neither it nor the tile has.  `rows` and `columns` are the extents of the tile's axes that it lacks (0: it has
    them), `slice_bytes` those of one row or column along a pass of the reduction.
    """

    once: float
    again: float
    rows: float
    columns: float
    slice_bytes: float
    lanes: int
    cache_bytes: float

    def cost(self, vectors: int, count: int) -> float:
        """Cycles per element of the iteration space with tiles of `count` rows and `vectors` registers of lanes."""
        total, panel = self.once * self.again, vectors * self.lanes
        if self.rows:
            held = _BLOCK_TILES * count if self.slice_bytes * panel <= self.cache_bytes else count
            total *= max(1.0, self.rows / held)
        if self.columns:
            held = _BLOCK_TILES * panel if self.slice_bytes * _BLOCK_TILES * count <= self.cache_bytes else panel
            total *= max(1.0, self.columns / held)
        return total


def traffic(
    stage: Stage, packed: tuple[Term, ...], vector: Axis, unrolled: Axis | None, lanes: int, target: Target
) -> Iterator[Traffic]:
    """One for each operand that the inner loop reads; a group's are judged by grouping."""
    if stage.ranges:
        return
    whole = math.prod(stage.extent(axis) for axis in (*stage.axes, *stage.reduced))
    length = min(PASS_LENGTH, math.prod(stage.extent(axis) for axis in stage.reduced))
    tile = (vector, unrolled)
    for item in [t for t in inner_terms(stage, packed) if isinstance(t.op, Load)] + list(packed):
        size = item.dtype.bits / 8
        cold = any(is_cold(stage, t, target) for t in walk(item) if isinstance(t.op, Load))
        cycles = _COLD_BYTE if cold else _NEAR_BYTE
        yield Traffic(
            once=cycles * size * elements_used(stage, item) / whole,
            again=math.prod(stage.extent(axis) for axis in stage.axes if axis not in item.free and axis not in tile),
            rows=stage.extent(unrolled) if unrolled is not None and unrolled not in item.free else 0.0,
            columns=0.0 if vector in item.free else stage.extent(vector),
            slice_bytes=length * size,
            lanes=lanes,
            cache_bytes=target.l2_bytes / 2,
        )
