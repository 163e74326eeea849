"""Kernels from groups: phases, local buffers, packed operands, and canonical names so that equal kernels are one.

`build_kernel` returns a kernel whose buffers have names by position (`b0`, `b1`, …) and the tensors they stand for, in
the same order; two groups that differ only in which tensors they touch give equal kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from snell.loops.fused import fused_phases
from snell.loops.grouping import Group
from snell.loops.ir import (
    Allocate,
    Blocked,
    Buffer,
    BufferScope,
    Dense,
    Kernel,
    Level,
    LoopKind,
    Phase,
    Statement,
    Strided,
)
from snell.loops.lower import lower_stage
from snell.loops.merge import merge_axes
from snell.loops.nested import NestedSum, nested_sum
from snell.loops.nested_kernel import nested_kernel
from snell.loops.packing import Packing, pack_operands
from snell.loops.plan import HEURISTICS, Plan, StageChoice
from snell.loops.prefetch import prefetches
from snell.loops.pruning import pruned
from snell.loops.retarget import rebuilt_stage, retarget_stage
from snell.loops.scatter import Scatter, scatter_of, walk_seconds
from snell.loops.scatter_kernel import scatter_phase
from snell.loops.schedule import StageSchedule, schedule_stage
from snell.loops.staging import stage_rows
from snell.loops.traffic import is_packed_once
from snell.loops.verify import verify
from snell.loops.work import claim_of, least_claim
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Cast, Index, Load, Tensor, Term, walk
from snell.symbolic import Axis, Dim, Expr, as_expr
from snell.targets import Target

__all__ = ["BuiltKernel", "PlanSource", "build_kernel", "canonical_group", "planned_kernel", "renamed_kernel"]

PlanSource = Callable[[Group], Plan]
"""The plan of a canonical group: what a record says, or `HEURISTICS`."""

_PACK_TICKETS = 16  # of a phase that copies an operand, at least


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A kernel and what its parameter buffers stand for, in order: tensors read or written (workspaces are not listed).

    `prepares` are the kernels that pack frozen operands; each runs once, when the weights are bound.  `claim` is the
    least number of the last phase's tickets that is worth a thread's attention.
    """

    kernel: Kernel
    tensors: tuple[Tensor, ...]
    writes: frozenset[Tensor]
    prepares: tuple[BuiltKernel, ...] = ()
    claim: int = 1


def build_kernel(
    group: Group,
    target: Target,
    threads: int,
    built: dict[Group, BuiltKernel],
    *,
    prunes: bool = True,
    plans: PlanSource = lambda _: HEURISTICS,
) -> BuiltKernel:
    """Schedule and lower one group; `built` remembers kernels by canonical group, so thirty equal layers build one.

    `prunes`: loops leave out what masks make 0, so that a masked infinity or NaN makes no NaN.  `plans` tells what a
    search found for a canonical group.
    """
    canonical, names = canonical_group(group)
    found = built.get(canonical)
    if found is None:
        found = built[canonical] = planned_kernel(canonical, target, threads, plans(canonical), prunes=prunes)
    return renamed_kernel(found, names)


def planned_kernel(canonical: Group, target: Target, threads: int, plan: Plan, *, prunes: bool = True) -> BuiltKernel:
    """The kernel of a canonical group under a plan; CompileError where the plan does not fit it."""
    found = _build(canonical, target, threads, prunes, plan)
    for kernel in (found, *found.prepares):
        verify(kernel.kernel)  # a wrong buffer would be written past its end: a few percent of compiling well spent
    return found


def _build(canonical: Group, target: Target, threads: int, prunes: bool, plan: Plan) -> BuiltKernel:
    if len(canonical.stages) == 1:
        return _single(canonical, target, threads, prunes, plan.stage(0))
    phases, local = fused_phases(canonical, target, threads, prunes=prunes, plan=plan)
    used = _parameters(canonical, {b.tensor for b in local})
    return _built(canonical, used, (), phases)


def renamed_kernel(kernel: BuiltKernel, names: Mapping[Tensor, Tensor]) -> BuiltKernel:
    """The kernel on the program's own tensors; a packed weight is named after the weight it copies."""
    known = dict(names)
    for prepare in kernel.prepares:
        *sources, packed = prepare.tensors
        joined = "+".join(known[source].name for source in sources)
        known[packed] = replace(packed, name=f"{joined}{packed.name[packed.name.index('#') :]}")
    return _of_tensors(kernel, known)


def _built(group: Group, used: list[Tensor], extra: tuple[Buffer, ...], phases: tuple[Phase, ...]) -> BuiltKernel:
    written = {stage.tensor for stage in group.stages}
    buffers = tuple(_parameter(t, t in written) for t in used) + extra
    kernel = Kernel("kernel", buffers, _dims(group), phases)
    parameters = tuple(b.tensor for b in buffers if b.scope is BufferScope.PARAMETER)
    claim = least_claim(phases[-1], group.stages)
    return BuiltKernel(kernel, parameters, frozenset(t for t in written if t in parameters), claim=claim)


def _parameter(tensor: Tensor, writable: bool) -> Buffer:
    if tensor.storage is not None:
        layout = Strided(tensor.storage.offset, tensor.storage.strides)
        return Buffer(tensor, tensor.shape, layout, writable=writable)
    return Buffer(tensor, tensor.shape, Dense(), writable=writable)


def _parameters(group: Group, local: set[Tensor]) -> list[Tensor]:
    found: dict[Tensor, None] = {}
    for stage in group.stages:
        for item in stage.loads():
            assert isinstance(item.op, Load)
            found[item.op.tensor] = None
    found.update(dict.fromkeys(stage.tensor for stage in group.stages))
    return [t for t in found if t not in local]


def _dims(group: Group) -> tuple[Dim, ...]:
    found: dict[str, Dim] = {}
    for stage in group.stages:
        sizes: list[object] = [*(a.extent for a in (*stage.axes, *stage.reduced)), *stage.indices]
        sizes += [size for t in (*stage.reads(), stage.tensor) for size in t.shape]
        sizes += [e for item in walk(*stage.terms()) for e in _expressions(item)]
        for size in sizes:
            found.update({dim.name: dim for dim in as_expr(size).dims()})
    return tuple(found[name] for name in sorted(found))


def _expressions(item: Term) -> tuple[Expr, ...]:
    match item.op:
        case Load(_, indices, guards):
            return (*indices, *guards)
        case Index(expression):
            return (expression,)
        case _:
            return ()


def canonical_group(group: Group) -> tuple[Group, dict[Tensor, Tensor]]:
    """Rename tensors by first use and axes by stage, so that equal groups become equal kernels."""
    order: dict[Tensor, Tensor] = {}
    for stage in group.stages:
        for tensor in (*(i.op.tensor for i in stage.loads() if isinstance(i.op, Load)), stage.tensor):
            if tensor not in order:
                order[tensor] = replace(tensor, name=f"b{len(order)}")
    axes: dict[Axis, Axis] = {axis: Axis(f"g{k}", axis.extent) for k, axis in enumerate(group.outer)}
    for number, stage in enumerate(group.stages):
        for k, axis in enumerate((*stage.axes, *stage.reduced)):
            axes.setdefault(axis, Axis(f"x{number}_{k}", axis.extent))
    stages = tuple(rebuilt_stage(stage, axes, order) for stage in group.stages)
    outer = tuple(axes[axis] for axis in group.outer)
    local = frozenset(order[t] for t in group.local)
    blocks = group.blocks
    if blocks is not None:
        pieces = (axes[blocks.pieces[0]], blocks.pieces[1]) if blocks.pieces is not None else None
        blocks = replace(blocks, levels=tuple((axes[axis], step) for axis, step in blocks.levels), pieces=pieces)
    return Group(stages, outer, local, blocks), {new: old for old, new in order.items()}


def _single(group: Group, target: Target, threads: int, prunes: bool, choice: StageChoice) -> BuiltKernel:
    """One stage: packing, then the compute phase.  Packing of a frozen operand is a kernel of its own, run once."""
    (whole,) = group.stages
    nested = nested_sum(whole, target)
    if nested is not None:
        return _nested(nested, target, threads)
    stage, origin = merge_axes(whole)
    scatter = scatter_of(stage, target)
    if scatter is not None:
        return _of_tensors(_scattered(scatter, target, threads), origin)
    schedule = schedule_stage(stage, target, threads=threads, choice=choice)
    fixed = [level.axis for level in schedule.tickets if level.step == 1] if schedule.own_copies else []
    packing = pack_operands(stage, schedule, BufferScope.WORKSPACE, fixed)
    phases: list[Phase] = []
    copied: list[Statement] = []
    local: list[Buffer] = []
    extra: list[Buffer] = []
    prepares: list[BuiltKernel] = []
    swaps: dict[Tensor, Tensor] = {}
    for copy, buffer in zip(packing.copies, packing.buffers, strict=True):
        if is_packed_once(copy.stage.value):
            kept = replace(buffer, tensor=_packed_tensor(copy, buffer), scope=BufferScope.PARAMETER)
            swaps[buffer.tensor] = kept.tensor
            extra.append(replace(kept, writable=False))
            prepares.append(_prepare(copy, kept, target))
        elif schedule.own_copies:
            part = _alive_part(buffer, copy, schedule)
            local.append(part)
            copied += (Allocate((part,)), *copy.statements(target, schedule.alive(copy.vector) or copy.panel))
        else:
            extra.append(buffer)
            phases.append(_pack_phase(copy, target))
    packed = retarget_stage(packing.stage, swaps)
    staged = stage_rows(packed, schedule, target)
    hints = prefetches(staged.stage, schedule, target)
    prologue = (*copied, *staged.prologue)
    body = lower_stage(staged.stage, schedule.levels, schedule.partial, prologue=prologue, hints=hints)
    if prunes:
        (body,) = pruned([stage], [body], (), {level.axis: level.step for level in schedule.tickets})
    phases.append(Phase(schedule.tickets, body))
    stages = (*(c.stage for c in packing.copies if not is_packed_once(c.stage.value)), packed)
    used = _parameters(Group(stages, ()), {b.tensor for b in (*extra, *local)})
    order = sorted(extra, key=lambda b: b.scope is not BufferScope.PARAMETER)
    built = replace(_built(Group((stage,), ()), used, tuple(order), tuple(phases)), prepares=tuple(prepares))
    return _of_tensors(built, origin)


def _nested(nested: NestedSum, target: Target, threads: int) -> BuiltKernel:
    """The kernel of a nested sum; what it reads packed is packed once, whatever its bits."""

    def keep(copy: Packing, buffer: Buffer) -> Buffer:
        return replace(buffer, tensor=_packed_tensor(copy, buffer))

    made = nested_kernel(nested, target, threads, keep)
    prepares = tuple(_prepare(copy, kept, target) for copy, kept in made.copies)
    extra = tuple(replace(kept, writable=False) for _, kept in made.copies)
    packed = {buffer.tensor for buffer in extra}
    read = dict.fromkeys(item.op.tensor for item in walk(*made.reads) if isinstance(item.op, Load))
    used = [tensor for tensor in (*read, nested.stage.tensor) if tensor not in packed]
    return replace(_built(Group((nested.stage,), ()), used, extra, (made.phase,)), prepares=prepares)


def _scattered(scatter: Scatter, target: Target, threads: int) -> BuiltKernel:
    group = Group((scatter.stage,), ())
    phase = scatter_phase(scatter, target, threads)
    built = _built(group, _parameters(group, set()), (), (phase,))
    return replace(built, claim=claim_of(phase, walk_seconds(scatter, target)))


def _alive_part(buffer: Buffer, copy: Packing, schedule: StageSchedule) -> Buffer:
    """The buffer of a ticket's own copy: what one pass of it reads."""
    sizes = [schedule.alive(axis) for axis in copy.stage.axes]
    shape = tuple(size for size in sizes if size is not None)
    assert len(shape) == len(sizes)
    return replace(buffer, shape=shape, scope=BufferScope.LOCAL)


def _of_tensors(built: BuiltKernel, names: Mapping[Tensor, Tensor]) -> BuiltKernel:
    """The kernel as one of other tensors; those without another name keep theirs."""
    prepares = tuple(_of_tensors(prepare, names) for prepare in built.prepares)
    tensors = tuple(names.get(t, t) for t in built.tensors)
    return replace(built, tensors=tensors, writes=frozenset(names.get(t, t) for t in built.writes), prepares=prepares)


def _packed_tensor(copy: Packing, buffer: Buffer) -> Tensor:
    """The identity of a packed weight: what it copies and in which layout, so that kernels share it."""
    value = copy.stage.value
    source = value.args[0] if isinstance(value.op, Cast) else value
    blocks = buffer.layout.blocks if isinstance(buffer.layout, Blocked) else ()
    layout = ",".join(f"{b.dimension}:{b.size}" for b in blocks)
    if not isinstance(source.op, Load):
        return _derived_tensor(copy, buffer, layout)
    places = {axis: as_expr(Axis(f"a{k}", axis.extent)) for k, axis in enumerate(copy.stage.axes)}
    order = ",".join(str(e.substitute(places)) for e in source.op.indices)  # type: ignore[arg-type]
    rounded = f"#{value.dtype}" if value is not source else ""
    name = f"{source.op.tensor.name}#{order}#{layout}{rounded}"
    return Tensor(name, buffer.tensor.shape, buffer.tensor.dtype, frozen=True)


def _derived_tensor(copy: Packing, buffer: Buffer, layout: str) -> Tensor:
    """The identity of a weight that is worked out of several: the whole expression, whatever names it is written in."""
    sources = _parameters(Group((copy.stage,), ()), {copy.stage.tensor})
    plain = {source: replace(source, name=f"w{k}") for k, source in enumerate(sources)}
    axes = {axis: Axis(f"a{k}", axis.extent) for k, axis in enumerate(copy.stage.axes)}
    value = rebuilt_stage(copy.stage, axes, plain).value
    names = "+".join(source.name for source in sources)
    return Tensor(f"{names}#{value}#{layout}", buffer.tensor.shape, buffer.tensor.dtype, frozen=True)


def _prepare(copy: Packing, buffer: Buffer, target: Target) -> BuiltKernel:
    sources = _parameters(Group((copy.stage,), ()), {copy.stage.tensor})
    stage = retarget_stage(copy.stage, {copy.stage.tensor: buffer.tensor})
    phase = _pack_phase(replace(copy, stage=stage), target)
    kernel = Kernel("kernel", (*(_parameter(source, False) for source in sources), buffer), (), (phase,))
    return BuiltKernel(kernel, (*sources, buffer.tensor), frozenset({buffer.tensor}))


def _pack_phase(copy: Packing, target: Target) -> Phase:
    """A shared copy, handed out by panels; where there are few of them, by pieces of the longest other axis too."""
    panels, *levels = copy.levels(target)
    tickets = [panels]
    rows = [level.axis for level in levels if level.axis != copy.vector and level.kind is LoopKind.SERIAL]
    if rows and typical_size(panels.axis.extent) < _PACK_TICKETS * panels.step:
        longest = max(rows, key=lambda axis: typical_size(axis.extent))
        step = next(level.step for level in levels if level.axis == longest)
        tickets.insert(0, Level(longest, max(1, int(typical_size(longest.extent) / _PACK_TICKETS / step)) * step))
    return Phase(tuple(tickets), lower_stage(copy.stage, levels))
