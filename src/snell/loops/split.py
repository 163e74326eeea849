"""Splitting: a long reduction to a few numbers is cut into pieces that threads share, and the pieces are reduced after.

`y = Σ_r f(r)` with few `y` has nothing to hand out but `r`.  One reduced axis (or a divisor of one) becomes a data axis
of the partial results; a second, short stage reduces them and works out what becomes of the total.  How a sum is cut
depends on sizes alone, so its rounding does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from snell.loops.access import access_of
from snell.loops.grouping import Group
from snell.loops.ir import read
from snell.loops.own_kernel import has_own_kernel
from snell.loops.retarget import split_stage
from snell.loops.stage import Partial, Stage
from snell.loops.tile import reduced_rank
from snell.loops.traffic import elements_used
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Tensor, load
from snell.symbolic import Axis, as_expr, as_size
from snell.targets import Target

__all__ = ["split_reductions"]

_FEW, _FEW_VECTORS = 64.0, 512.0  # results that make a handful of tickets: each by itself; as lanes of vectors
_LEAST_TERMS = 1 << 16  # terms of all results, so that there is work for more than one thread
_LEAST_PIECES, _PIECES, _MOST_PIECES = 8, 64, 1024
_LEAST_LENGTH = 64.0  # terms of a piece


def split_reductions(groups: Iterable[Group], target: Target, fixed: frozenset[Tensor] = frozenset()) -> list[Group]:
    """The groups, with two stages for each long reduction to few results; `fixed` tensors are made as they are."""
    found: list[Group] = []
    for group in groups:
        stages = _split(group.stages[0], target) if len(group.stages) == 1 else None
        if stages is None or group.stages[0].tensor in fixed:
            found.append(group)
        else:
            found += [Group((stage,), ()) for stage in stages]
    return found


def _split(stage: Stage, target: Target) -> tuple[Stage, Stage] | None:
    """The partial results of each piece, and the stage that reduces them; None where that does not pay."""
    results = math.prod(stage.extent(axis) for axis in stage.axes)
    terms = results * math.prod(stage.extent(axis) for axis in stage.reduced)
    if len(stage.partials) != 1 or terms < _LEAST_TERMS or results > (_FEW_VECTORS if _is_in_lanes(stage) else _FEW):
        return None
    if has_own_kernel(stage, target):
        return None
    cut = _cut(stage)
    if cut is None:
        return None
    stage, pieces = cut
    (partial,) = stage.partials
    axes = (pieces, *stage.axes)
    places = tuple(as_expr(axis) for axis in axes)
    shape = tuple(as_size(axis.extent) for axis in axes)
    tensor = Tensor(f"{stage.tensor.name}.pieces", shape, partial.accumulator.dtype)
    own = replace(partial.accumulator, axes=axes)
    rest = tuple(axis for axis in stage.reduced if axis != pieces)
    first = Stage(tensor, axes, places, rest, (Partial(own, partial.body),), read(own))
    second = replace(stage, reduced=(pieces,), partials=(Partial(partial.accumulator, load(tensor, places)),))
    return first, second


def _is_in_lanes(stage: Stage) -> bool:
    """Whether the largest operand runs along the results, so that a vector holds several of them."""
    largest = max(stage.loads(), key=lambda item: elements_used(stage, item), default=None)
    return largest is not None and any(access_of(largest).stride(axis) == 1.0 for axis in stage.axes)


def _cut(stage: Stage) -> tuple[Stage, Axis] | None:
    """The stage with a reduced axis that numbers the pieces: the outermost as it is, or a divisor of the first that has one."""
    order = sorted(stage.reduced, key=lambda axis: -reduced_rank(stage, axis))
    length = math.prod(stage.extent(axis) for axis in order)
    outermost = order[0]
    pieces = typical_size(outermost.extent)
    if len(order) > 1 and _LEAST_PIECES <= pieces <= _MOST_PIECES and length / pieces >= _LEAST_LENGTH:
        return stage, outermost
    for axis in order:
        count = _divisor(axis.extent, length) if isinstance(axis.extent, int) else None
        if count is not None:
            piece, within = Axis(f"{axis.name}_piece", count), Axis(f"{axis.name}_within", axis.extent // count)
            place = as_expr(piece) * (axis.extent // count) + as_expr(within)
            return split_stage(stage, {axis: ((piece, within), place)}), piece
    return None


def _divisor(extent: int, length: float) -> int | None:
    """The number of equal pieces nearest to the wanted one, on a scale of ratios."""
    counts = [n for n in range(_LEAST_PIECES, _MOST_PIECES + 1) if extent % n == 0 and length / n >= _LEAST_LENGTH]
    return min(counts, key=lambda n: abs(math.log(n / _PIECES)), default=None)
