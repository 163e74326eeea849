"""One pass instead of several: reductions over long rows that depend on each other become a stream.

    stages ──chain──▶ definition ──stream──▶ init, step, finish ──▶ a group that walks its rows in blocks

A chain is a stage that reduces over J, the values it waits for that are finished by reductions over as many positions,
and what only they read at each position of a row.  Put back in place they are one definition; where `rewrite.stream`
finds its reductions combinable and a pass is worth more than moving the state from block to block, the chain becomes a
group of its own that goes once over blocks of J with a small state for each row.

Where there are few rows, tickets take pieces of J: the group stores the state of each piece, and the stages after it
combine those and finish.  The pieces depend on sizes alone, so that results are the same for any number of threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from snell.graph.primitives import ScalarFunction, Unary
from snell.loops.fused import is_far
from snell.loops.grouping import Blocks, Group, Joins, group_stages, usual
from snell.loops.pieces import in_pieces, named_after, panels, pieces_of
from snell.loops.retarget import rebuilt_stage, retarget_stage
from snell.loops.scatter import scatter_of
from snell.loops.stage import Stage, definition_of, map_term, stages_of
from snell.rewrite.chain import inlined
from snell.rewrite.cut import typical_size, typical_volume
from snell.rewrite.definition import Definition
from snell.rewrite.state import NEXT, renamed
from snell.rewrite.stream import Stream, stream_axes, stream_of
from snell.rewrite.term import Load, Tensor, Term, load, walk
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["group_with_streams"]

_TRANSFER = 8.0  # cycles to move one register of the state to a new reference, small loops included (measured)
_L2_BYTE, _FAR_BYTE = 0.03, 0.15  # cycles a byte from the second-level cache, and from beyond it
_ROWS = 24.0
_FUNCTION, _OPERATION = 2.0, 0.1  # cycles of an exponential at one position, and of any other operation
# Cycles to pack an element that is not near, beyond what reading it costs without a stream (measured), and tickets that
# each pack it: rounding should not depend on the number of threads, so this choice does not.
_COPY, _SHARES = 0.35, 2.0
_LONGEST_BLOCK = 2048
_SHARE = 1.5  # of the first-level cache: a little beyond it costs less than moving the state more often (measured)
_ROW = Axis("row", 1)  # where all positions are of one row


def group_with_streams(
    stages: Sequence[Stage],
    kept: Iterable[Tensor],
    target: Target,
    threads: int,
    joins: Joins = usual,
    streams: Callable[[Stage], bool] = lambda _: True,
) -> list[Group]:
    """As `group_stages`; chains that gain from it become streams, where `streams` allows it of a chain's last stage."""
    outputs = frozenset(kept)
    groups: list[Group] = []
    known: dict[tuple[Stage, ...], tuple[Group, ...]] = {}
    rest = list(stages)
    chains = _Chains.among(rest, outputs)
    for result in stages:
        chain = chains.of(result)
        lone = len(chain) == 1 or any(scatter_of(stage, target) is not None for stage in chain)
        stream = () if lone else _known(chain, target, threads, known)
        if stream and streams(result):
            place = rest.index(result)
            made = {stage.tensor for stage in chain}
            before = [stage for stage in rest[:place] if stage.tensor not in made]
            later = outputs.union(
                *(stage.reads() for stage in rest[place:]), *(s.reads() for group in stream for s in group.stages)
            )
            groups += [*group_stages(before, later, target, threads, joins), *stream]
            rest = rest[place + 1 :]
            chains = _Chains.among(rest, outputs)
    return groups + group_stages(rest, outputs, target, threads, joins)


@dataclass(frozen=True, slots=True)
class _Chains:
    """Stages by what they make, in order, and who reads it."""

    makers: Mapping[Tensor, Stage]
    readers: Mapping[Tensor, frozenset[Tensor]]
    kept: frozenset[Tensor]

    @staticmethod
    def among(stages: Sequence[Stage], kept: frozenset[Tensor]) -> _Chains:
        readers: dict[Tensor, set[Tensor]] = {}
        for stage in stages:
            for tensor in stage.reads():
                readers.setdefault(tensor, set()).add(stage.tensor)
        found = {tensor: frozenset(names) for tensor, names in readers.items()}
        return _Chains({stage.tensor: stage for stage in stages}, found, kept)

    def of(self, result: Stage) -> list[Stage]:
        """The chain that ends in a stage, producers first; the stage alone where it waits for nothing."""
        reduced = result.reduced or _awaited(result, self.makers)
        chain = {result.tensor}
        grown = bool(reduced)
        while grown:
            found = {t for tensor in chain for t in self._joining(self.makers[tensor], chain, reduced)}
            grown = not found <= chain
            chain |= found
        return [self.makers[tensor] for tensor in self.makers if tensor in chain] if len(chain) > 1 else [result]

    def _joining(self, reader: Stage, chain: set[Tensor], reduced: tuple[Axis, ...]) -> set[Tensor]:
        """What a stage of the chain reads that belongs to it as well."""
        found: set[Tensor] = set()
        for item in reader.loads():
            assert isinstance(item.op, Load)
            tensor = item.op.tensor
            known = tensor in self.makers and tensor not in self.kept and self.readers[tensor] <= chain
            if known and _belongs(reader, item, reduced, self.makers):
                found.add(tensor)
        return found


def _belongs(reader: Stage, item: Term, reduced: tuple[Axis, ...], makers: Mapping[Tensor, Stage]) -> bool:
    """A value finished over as many positions, or one of a position: made from such a value, or as often as read.

    What fewer points make than read it (a projection that many rows share) stays stored.
    """
    assert isinstance(item.op, Load)
    maker = makers[item.op.tensor]
    if _finishes(maker, reduced):
        return not item.free & set(reader.reduced)
    if typical_volume(maker.axes) < typical_volume(reduced):
        return False
    waits = any(t in makers and _finishes(makers[t], reduced) for t in maker.reads())
    points = (*reader.axes, *reader.reduced) if _finishes(reader, reduced) else reader.axes
    return waits or (set(points) <= item.free and typical_volume(maker.axes) >= typical_volume(points))


def _awaited(result: Stage, makers: Mapping[Tensor, Stage]) -> tuple[Axis, ...]:
    """What an element-wise stage waits for: the longest reduction among the values it reads."""
    if result.partials:
        return ()
    reads = sorted(result.reads(), key=lambda tensor: tensor.name)
    return max((makers[t].reduced for t in reads if t in makers), key=typical_volume, default=())


def _finishes(stage: Stage, reduced: tuple[Axis, ...]) -> bool:
    """Whether a stage reduces over as many positions."""
    own, wanted = (sorted(str(axis.extent) for axis in axes) for axes in (stage.reduced, reduced))
    return bool(stage.partials) and own == wanted


def _known(
    chain: Sequence[Stage], target: Target, threads: int, known: dict[tuple[Stage, ...], tuple[Group, ...]]
) -> tuple[Group, ...]:
    """The groups of a chain's stream, none where it is none; chains that differ only in names (equal layers) are worked
    out once."""
    rows = min((stage.axes for stage in chain if stage.partials), key=typical_volume, default=None)
    if rows is None:
        return ()  # what the chain waits for is made outside of it
    together = max((_rows_together(chain, axis) for axis in rows), default=1.0)
    if together * _moved_bytes(chain) <= target.l1_bytes * typical_volume(rows):
        return ()  # what is moved never leaves the first-level cache
    renamed_chain, axes, tensors = _with_own_names(chain)
    if renamed_chain not in known:
        known[renamed_chain] = _streamed(renamed_chain, target, threads)
    own, result = renamed_chain[-1].tensor, chain[-1].tensor
    made = {stage.tensor for group in known[renamed_chain] for stage in group.stages}
    tensors = {t: replace(t, name=t.name.replace(own.name, result.name, 1)) for t in made} | tensors
    return tuple(_renamed_group(group, axes, tensors) for group in known[renamed_chain])


def _renamed_group(group: Group, axes: Mapping[Axis, Axis], tensors: Mapping[Tensor, Tensor]) -> Group:
    return replace(
        group,
        stages=tuple(rebuilt_stage(stage, axes, tensors) for stage in group.stages),
        outer=tuple(axes.get(axis, axis) for axis in group.outer),
        local=frozenset(tensors[tensor] for tensor in group.local),
    )


def _with_own_names(chain: Sequence[Stage]) -> tuple[tuple[Stage, ...], dict[Axis, Axis], dict[Tensor, Tensor]]:
    """The chain with tensors and axes named in the order in which they occur, and what the names stand for."""
    axes: dict[Axis, Axis] = {}
    tensors: dict[Tensor, Tensor] = {}
    for stage in chain:
        for axis in (*stage.axes, *stage.reduced):
            axes.setdefault(axis, Axis(f"c{len(axes)}", axis.extent))
        for item in stage.loads():
            assert isinstance(item.op, Load)
            tensors.setdefault(item.op.tensor, replace(item.op.tensor, name=f"c{len(tensors)}"))
        tensors.setdefault(stage.tensor, replace(stage.tensor, name=f"c{len(tensors)}"))
    stages = tuple(rebuilt_stage(stage, axes, tensors) for stage in chain)
    return stages, {new: old for old, new in axes.items()}, {new: old for old, new in tensors.items()}


def _streamed(chain: Sequence[Stage], target: Target, threads: int) -> tuple[Group, ...]:
    result = chain[-1]
    whole = inlined([definition_of(stage) for stage in chain], [result.tensor])
    if whole is None:
        return ()
    sets = stream_axes(whole)
    if len(sets) != 1:
        return ()
    stream = stream_of(whole, sets[0])
    if isinstance(stream, str):
        return ()
    outer = _outer(stream, whole[0])
    made = _group(outer or (_ROW,), stream, result.tensor, target)
    pieces = pieces_of(made, sum(map(_work, made.stages)), target)
    if not outer and pieces is None:
        return ()
    today = group_stages(chain, [result.tensor], target, threads)
    if _gain(chain, today, made, stream, target) <= 0:
        return ()
    return (made,) if pieces is None else in_pieces(made, stream, pieces, result.tensor, target)


def _outer(stream: Stream, whole: Definition) -> tuple[Axis, ...]:
    """The axes of a row: those that every value of a position depends on (every state, where none is stored); the
    longest is walked in blocks."""
    reduced = set(stream.axes)
    sets = [set(d.axes) for d in stream.step if reduced & set(d.axes)]
    sets = sets or [set(d.axes) for d in stream.init if d.axes]
    shared = [axis for axis in whole.axes if all(axis in axes for axes in sets) and axis.extent != 1]
    return tuple(sorted(shared, key=lambda axis: typical_size(axis.extent) == max(map(_typical, shared))))


def _typical(axis: Axis) -> float:
    return typical_size(axis.extent)


def _group(outer: tuple[Axis, ...], stream: Stream, result: Tensor, target: Target) -> Group:
    """Stages of the parts one after the other, their tensors named after the result."""
    fresh = itertools.count()
    parts = [
        [stage for d in part for stage in stages_of(d, fresh)]
        for part in (stream.init, _in_place(stream), stream.finish)
    ]
    made = [stage.tensor for stage in itertools.chain(*parts) if stage.tensor != result]
    names = {tensor: named_after(tensor, result) for tensor in made}
    init, step, finish = ([retarget_stage(stage, names) for stage in part] for part in parts)
    block = _block(step, stream.axes, outer, target)
    blocks = Blocks(tuple(block.items()), len(init), len(init) + len(step))
    return Group((*init, *step, *finish), outer, frozenset(names.values()), blocks)


def _in_place(stream: Stream) -> tuple[Definition, ...]:
    """The step on the state itself: a new value takes the old one's place where nobody looks at that any more, and is
    copied to it at the end else."""
    lines = list(stream.step)
    copies: list[Definition] = []
    for place, line in enumerate(stream.step):
        old = next((tensor for tensor in stream.state if renamed(tensor, NEXT) == line.tensor), None)
        if old is None:
            continue
        if any(_loads(later, old) for later in stream.step[place + 1 :]):
            copies.append(replace(line, tensor=old, value=load(line.tensor, line.indices)))
        else:
            lines = [_renamed(d, line.tensor, old) for d in lines]
    return (*lines, *copies)


def _loads(definition: Definition, tensor: Tensor) -> bool:
    return any(isinstance(item.op, Load) and item.op.tensor == tensor for item in walk(definition.value))


def _renamed(definition: Definition, old: Tensor, new: Tensor) -> Definition:
    def swap(item: Term) -> Term | None:
        if isinstance(item.op, Load) and item.op.tensor == old:
            return load(new, item.op.indices, item.op.guards)
        return None

    tensor = new if definition.tensor == old else definition.tensor
    return replace(definition, tensor=tensor, value=map_term(definition.value, swap))


def _block(step: Sequence[Stage], axes: Sequence[Axis], outer: Sequence[Axis], target: Target) -> dict[Axis, int]:
    """How many positions of each axis a block takes, so that what it stores for them stays near the first-level cache;
    axes that a block takes whole are left out.

    What rows share of a block, packed, takes a part of the second-level cache.

    One position, or whole panels, whichever width the schedules choose for packed operands: 1 to 4 registers of lanes.
    """
    stored = sum(stage.tensor.dtype.itemsize for stage in step if axes[0] in stage.axes)
    fitting = target.l1_bytes * _SHARE / (_rows_together(step, outer[-1]) * max(4.0, stored))
    shared = sum(
        item.dtype.itemsize * typical_volume(item.free - {*axes, *outer}) for item in _shared(step, outer[-1], axes[0])
    )
    left = min(max(min(fitting, target.l2_bytes / 2 / max(1.0, shared)), 1.0), _LONGEST_BLOCK)
    panel = panels(target)
    found: dict[Axis, int] = {}
    for axis in reversed(axes):
        if _typical(axis) <= left and isinstance(axis.extent, int):
            left /= max(1.0, _typical(axis))
            continue
        innermost = not found
        found[axis] = panel * max(1, int(left) // panel) if innermost and _typical(axis) > panel else 1
        left = 1.0
    return {axis: found[axis] for axis in axes if axis in found}


def _gain(chain: Sequence[Stage], today: Sequence[Group], made: Group, stream: Stream, target: Target) -> float:
    """Cycles that one pass saves for each row: what passes between stages, and what more than one of them reads, through
    a farther memory than a block does; against moving the state from block to block, and arithmetic that is added."""
    assert made.blocks is not None
    steps = math.prod(math.ceil(_typical(axis) / step) for axis, step in made.blocks.levels)
    if steps == 1:
        return -1.0
    positions = typical_volume(made.outer)
    moved = _moved_bytes(chain) / positions
    alive = moved * (_rows_together(chain, made.outer[-1]) if len(today) == 1 else positions)
    price = 0.0 if alive <= target.l1_bytes else _L2_BYTE if alive <= target.l2_bytes / 2 else _FAR_BYTE
    step = made.stages[made.blocks.start : made.blocks.stop]
    states = [stage for stage in step if not set(stream.axes) & set(stage.axes)]
    registers = sum(
        math.ceil(typical_volume(set(s.axes) - set(made.outer)) / target.lanes(s.tensor.dtype)) for s in states
    )
    added = sum(map(_work, made.stages)) - sum(map(_work, chain))
    operands = [(item, item.free - set(made.outer[:-1])) for item in _shared(step, made.outer[-1], stream.axes[0])]
    copied = sum(typical_volume(axes) for item, axes in operands if is_far(axes, item.dtype, target))
    copies = _COPY * copied * _SHARES / _typical(made.outer[-1])
    return moved * price - steps * registers * _TRANSFER - added / positions - copies


def _shared(step: Sequence[Stage], rows: Axis, positions: Axis) -> list[Term]:
    """What stages that reduce read of each position for many rows: each ticket packs it for its rows."""
    loads = [item for stage in step if stage.partials for item in stage.loads()]
    made = {stage.tensor for stage in step}
    return [
        item
        for item in loads
        if isinstance(item.op, Load) and rows not in item.free and positions in item.free and item.op.tensor not in made
    ]


def _work(stage: Stage) -> float:
    """Cycles of a stage's arithmetic: each operation at every point that it depends on."""
    known = {*stage.axes, *stage.reduced}
    total = sum(typical_volume(p.body.free & known | set(stage.reduced)) * _OPERATION for p in stage.partials)
    for item in walk(*stage.terms()):
        if item.args:
            each = _FUNCTION if isinstance(item.op, Unary | ScalarFunction) else _OPERATION
            total += typical_volume(item.free & known) * each
    return total


def _rows_together(stages: Sequence[Stage], rows: Axis) -> float:
    """How many rows a group walks at once: some where they share operands, else one."""
    shared = any(stage.partials and any(rows not in item.free for item in stage.loads()) for stage in stages)
    return min(_ROWS, _typical(rows)) if shared else 1.0


def _moved_bytes(chain: Sequence[Stage]) -> float:
    """Bytes that are written for later stages and read again, and that stages after the first read once more."""
    made = {stage.tensor for stage in chain}
    total = sum(2.0 * stage.tensor.dtype.itemsize * typical_volume(stage.axes) for stage in chain[:-1])
    seen: set[Tensor] = set()
    for stage in chain:
        for tensor in stage.reads() - made:
            if tensor in seen:
                total += tensor.dtype.itemsize * math.prod(typical_size(size) for size in tensor.shape)
            seen.add(tensor)
    return total
