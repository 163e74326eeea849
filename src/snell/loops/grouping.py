"""Grouping: which stages run inside one kernel, sharing outer axes, so that what passes between them stays in cache.

A consumer joins its producers' group when both can walk the same outer axes and every value that passes between them is
used at the same outer position: the slice for one position is then local to a thread.  The gain is the traffic saved;
the limits are the size of a slice, enough outer positions for the threads wherever a reduction is worth sharing among
them, operands that every position would read again from beyond the second-level cache, and streams that would be broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from snell.loops.access import access_of
from snell.loops.own_kernel import has_own_kernel
from snell.loops.retarget import Parts, rebuilt_stage, split_stage
from snell.loops.stage import Stage
from snell.loops.traffic import LONG_JUMP, is_cold
from snell.loops.work import is_worth_threads
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Load, Tensor, Term
from snell.symbolic import Axis, Expr, as_expr
from snell.targets import Target

__all__ = ["Blocks", "Group", "Joins", "group_stages", "usual"]

_LEAST_INNER = 8.0
_LEAST_ROW = 64.0  # elements of a row that passes between element-wise stages: fewer cost more in loops than in memory
_MOST_STAGES = 16  # what compiling takes grows faster than the stages; equal groups share one kernel


Joins = Callable[[Stage, bool], bool]
"""Whether a stage that can join its producers' group does, given whether that is estimated to pay."""


def usual(_: Stage, pays: bool) -> bool:
    """Join where it pays."""
    return pays


@dataclass(frozen=True, slots=True)
class Blocks:
    """Reduced axes that a group walks in blocks (`loops.streaming`): stages `start:stop` run once a block, those before
    once at the beginning, those after once at the end.

    With `pieces` (the first of the outer axes, and a length) each of its positions has so many of the first axis's."""

    levels: tuple[tuple[Axis, int], ...]
    start: int
    stop: int
    pieces: tuple[Axis, int] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Stages in order, the outer axes they all walk, and the tensors that nobody outside reads."""

    stages: tuple[Stage, ...]
    outer: tuple[Axis, ...]
    local: frozenset[Tensor] = frozenset()
    blocks: Blocks | None = None


@dataclass(slots=True)
class _Growing:
    """A group while it grows; outer candidates of a single stage are all its axes."""

    stages: list[Stage]
    outer: tuple[Axis, ...]
    produces: set[Tensor]
    reads: set[Tensor]


def group_stages(
    stages: Sequence[Stage], kept: Iterable[Tensor], target: Target, threads: int, joins: Joins = usual
) -> list[Group]:
    """Groups in execution order (stages must have axes of their own).

    `kept` tensors (outputs) are stored even when all their readers share the group.
    """
    growing: list[_Growing] = []
    for stage in stages:
        joined = _join(growing, stage, target, threads, joins)
        if not joined:
            growing.append(_Growing([stage], stage.axes, {stage.tensor}, set(stage.reads())))
    outputs = set(kept)
    readers: dict[Tensor, set[int]] = {}
    for k, group in enumerate(growing):
        for tensor in {t for s in group.stages for t in s.reads()}:
            readers.setdefault(tensor, set()).add(k)
    groups: list[Group] = []
    for k, group in enumerate(growing):
        local = frozenset(t for t in group.produces if readers.get(t, set()) <= {k} and t not in outputs)
        outer = group.outer if len(group.stages) > 1 else ()
        groups.append(Group(tuple(group.stages), outer, local if len(group.stages) > 1 else frozenset()))
    return groups


def _join(growing: list[_Growing], stage: Stage, target: Target, threads: int, joins: Joins) -> bool:
    """Add the stage to the latest group that produces one of its operands, where that is legal and pays.

    The group then runs after every other producer, so no group in between may read what it makes.
    """
    reads = stage.reads()
    if has_own_kernel(stage, target):
        return False
    for place in reversed(range(len(growing))):
        group = growing[place]
        later = growing[place + 1 :]
        if (
            has_own_kernel(group.stages[0], target)
            or len(group.stages) == _MOST_STAGES
            or not group.produces & reads
            or any(group.produces & other.reads for other in later)
        ):
            continue
        aligned = _aligned(group, stage)
        shared = _by_rows(group, aligned, _shared_axes(group, aligned))
        if not shared:
            continue
        renamed = rebuilt_stage(aligned, {own: outer for outer, own in shared.items()})
        candidate = [_in_group(s, tuple(shared)) for s in (*group.stages, renamed)]
        if any(_slice_bytes(s, tuple(shared)) > target.l2_bytes / 2 for s in candidate):
            continue
        if joins(stage, _pays(candidate, group, tuple(shared), target, threads)):
            group.stages, group.outer = candidate, tuple(shared)
            group.produces.add(stage.tensor)
            group.reads |= reads
            growing.append(growing.pop(place))
            _absorb(growing)
            return True
    return False


def _absorb(growing: list[_Growing]) -> None:
    """Take element-wise groups whose values the last group reads into it, where all of its stages walk their rows as
    the group does: one that reads across them needs rows that are not made yet."""
    group = growing[-1]
    if any(s.partials for s in group.stages):
        return
    for place in reversed(range(len(growing) - 1)):
        other = growing[place]
        if not other.produces & group.reads or any(s.partials for s in other.stages):
            continue
        if any(other.produces & between.reads for between in growing[place + 1 : -1]):
            continue
        names = _common_rows(other, group)
        if names is None or len(group.stages) + len(other.stages) > _MOST_STAGES:
            continue
        moved = [_in_group(rebuilt_stage(s, names), group.outer) for s in other.stages]
        group.stages = [*moved, *group.stages]
        group.produces |= other.produces
        group.reads |= other.reads
        growing.remove(other)


def _common_rows(other: _Growing, group: _Growing) -> dict[Axis, Axis] | None:
    """The other group's axes → the outer axes of this one, where every stage that reads its values agrees."""
    found: list[dict[Axis, Axis]] = []
    for stage in group.stages:
        if stage.reads() & other.produces:
            shared = _shared_axes(other, stage)
            found.append({own: shared[own] for own in shared if shared[own] in group.outer})
    names = {own: outer for outer in group.outer for own, axis in found[0].items() if axis == outer}
    if len(names) < len(group.outer) or any(each != names for each in found):
        return None
    rows = tuple(names) == other.outer if len(other.stages) > 1 else _row_axis(other.stages[0]) not in names
    return names if rows else None


def _by_rows(group: _Growing, stage: Stage, shared: dict[Axis, Axis]) -> dict[Axis, Axis]:
    """The axes that a group shares: element-wise stages that share all of theirs go row by row, and share the others."""
    stages = (*group.stages, stage)
    inner = _row_axis(group.stages[0])
    if any(s.partials for s in stages) or inner not in shared or len(shared) < len(stage.axes):
        return shared
    if shared[inner] != _row_axis(stage) or typical_size(inner.extent) < _LEAST_ROW:
        return shared
    return {outer: own for outer, own in shared.items() if outer != inner}


def _row_axis(stage: Stage) -> Axis | None:
    """The axis along which the result's rows lie in memory."""
    return stage.indices[-1].lone_axis() if stage.indices else None


def _in_group(stage: Stage, outer: tuple[Axis, ...]) -> Stage:
    return replace(stage, ranges=tuple((axis, 1) for axis in outer))


def _shared_axes(group: _Growing, stage: Stage) -> dict[Axis, Axis]:
    """Outer axis → the consumer's data axis, for axes along which every passed value is used where it was made."""
    shared: dict[Axis, Axis] | None = None
    places = {s.tensor: s.indices for s in group.stages}
    for item in stage.loads():
        assert isinstance(item.op, Load)
        made = places.get(item.op.tensor)
        if made is None:
            continue
        pairs: dict[Axis, Axis] = {}
        for written, read in zip(made, item.op.indices, strict=True):
            pairs.update((o, a) for o, a in _matched(written, read).items() if o in group.outer and a in stage.axes)
        shared = pairs if shared is None else {o: a for o, a in shared.items() if pairs.get(o) == a}
    found = shared or {}
    return {outer: found[outer] for outer in group.outer if outer in found and outer.extent == found[outer].extent}


def _matched(written: Expr, read: Expr) -> dict[Axis, Axis]:
    """Axes that correspond where a value written at one index is read at another of the same form."""
    if len(written.terms) != len(read.terms) or written.constant != read.constant:
        return {}
    by_coefficient = {c: m[0] for m, c in read.terms if len(m) == 1}
    if len(by_coefficient) != len(read.terms) or len({c for _, c in written.terms}) != len(written.terms):
        return {}
    pairs: dict[Axis, Axis] = {}
    for monomial, coefficient in written.terms:
        own = by_coefficient.get(coefficient)
        if len(monomial) != 1 or not isinstance(monomial[0], Axis) or not isinstance(own, Axis):
            return {}
        pairs[monomial[0]] = own
    return pairs


def _aligned(group: _Growing, stage: Stage) -> Stage:
    """Split the stage's axes as the producers split theirs: `x[3*a + b]` read at `x[c]` makes `c` two axes."""
    places = {s.tensor: s.indices for s in group.stages}
    parts: dict[Axis, Parts] = {}
    for item in stage.loads():
        assert isinstance(item.op, Load)
        for written, read in zip(places.get(item.op.tensor, ()), item.op.indices, strict=False):
            own = read.lone_axis()
            if own is None or own not in stage.axes or own in parts or len(written.axes()) < 2:
                continue
            if written.substitute({a: as_expr(a.extent) - 1 for a in written.axes()}) + 1 == as_expr(own.extent):  # type: ignore[arg-type]
                fresh = {a: Axis(f"{own.name}_{k}", a.extent) for k, a in enumerate(sorted(written.axes(), key=str))}
                ordered = sorted(fresh, key=lambda a: -written.coefficient(a))
                place = written.substitute({a: as_expr(b) for a, b in fresh.items()})  # type: ignore[arg-type]
                parts[own] = (tuple(fresh[a] for a in ordered), place)
    return split_stage(stage, parts) if parts else stage


def _pays(stages: Sequence[Stage], group: _Growing, outer: tuple[Axis, ...], target: Target, threads: int) -> bool:
    before = math.prod(typical_size(axis.extent) for axis in group.outer)
    positions = math.prod(typical_size(axis.extent) for axis in outer)
    if positions < min(4 * threads, before):
        return False
    if positions < threads and any(stage.partials and is_worth_threads(stage) for stage in stages):
        return False
    budget = target.l2_bytes / 2
    for stage in stages:
        inner = math.prod(typical_size(a.extent) for a in (*stage.axes, *stage.reduced) if a not in outer)
        if inner < _LEAST_INNER:
            return False
        if stage.partials and (_repeated_bytes(stage, outer) > budget or _loses_reuse(stage, outer, target)):
            return False
    return not any(_breaks_stream(stage, [s for s in stages if s is not stage], outer, budget) for stage in stages)


def _breaks_stream(stage: Stage, others: Sequence[Stage], outer: tuple[Axis, ...], budget: float) -> bool:
    """Whether the group reads a large operand of this stage alone in narrow columns, or again for another position: a
    nest of the stage's own streams through it once, row by row."""
    for item in stage.loads():
        assert isinstance(item.op, Load)
        elements = math.prod(typical_size(axis.extent) for axis in item.free)
        if not item.free & set(stage.reduced) or elements * item.dtype.bits / 8 <= budget:
            continue
        if any(item.op.tensor in other.reads() for other in others):
            continue
        access = access_of(item)
        jump = max(abs(access.stride(axis) or 0.0) for axis in stage.reduced) * item.dtype.bits / 8
        if access.stride(outer[-1]) == 1.0 and jump >= LONG_JUMP:
            return True
        if any(_uses_once(item, stage, outer, place) for place in range(len(outer) - 1)):
            return True
    return False


def _uses_once(item: Term, stage: Stage, outer: tuple[Axis, ...], place: int) -> bool:
    """Whether each position of an outer axis walks all of the operand, using each element once."""
    rest = set(stage.axes) - set(outer[: place + 1])
    return outer[place] not in item.free and typical_size(outer[place].extent) > 1 and rest <= item.free


def _loses_reuse(stage: Stage, outer: tuple[Axis, ...], target: Target) -> bool:
    """Whether many fixed outer positions use the same operand, each reading (and decoding) it for itself.

    Of what comes from memory two are too many: a nest of the stage's own reads it once for all of them.
    """
    for item in stage.loads():
        if item.free & set(stage.reduced):
            lost = math.prod(typical_size(axis.extent) for axis in outer[:-1] if axis not in item.free)
            if lost >= (2 if is_cold(stage, item, target) else _LEAST_INNER):
                return True
    return False


def _slice_bytes(stage: Stage, outer: tuple[Axis, ...]) -> float:
    """Bytes of the stage's result for one outer position."""
    return stage.tensor.dtype.itemsize * math.prod(typical_size(a.extent) for a in stage.axes if a not in outer)


def _repeated_bytes(stage: Stage, outer: tuple[Axis, ...]) -> float:
    """Bytes of the largest operand that the innermost outer axis does not select, read again at each of its positions."""
    largest = 0.0
    for item in stage.loads():
        access = access_of(item)
        if outer[-1] not in access.axes:
            elements = math.prod(typical_size(axis.extent) for axis in access.axes if axis not in outer)
            largest = max(largest, elements * item.dtype.itemsize)
    return largest
