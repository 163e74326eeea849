"""The pipeline's middle as named, timed passes: a graph becomes kernels and repetitions of kernels, in order.

    graph ──cut──▶ stored nodes ──index──▶ definitions ──rewrite──▶ definitions ──order──▶ definitions
          ──in place──▶ definitions ──stages──▶ stages ──group──▶ groups ──build──▶ kernels ──dispatch──▶ steps

Every pass is a function from one frozen value to the next; `Lowered` keeps each of them for `explain`.  The body of a
scan goes through the same passes.  Groups do not cross a scan: what is before it is one segment, what reads its results
a later one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from snell.compiler.checks import with_check_outputs
from snell.compiler.lowered import (
    CarryTensors,
    Lowered,
    Naming,
    PassTimes,
    RepeatStep,
    RowTensors,
    SideBySide,
    Step,
    renamed_check,
    renamed_step,
)
from snell.graph.node import Builder, Graph, Node, Operand, full_view
from snell.graph.primitives import Input, Structured
from snell.graph.replay import Replay
from snell.graph.scan import Loop, Repetition, Scan, repetitions
from snell.loops.build import BuiltKernel, PlanSource, build_kernel
from snell.loops.dispatches import dispatches
from snell.loops.group_word import group_word, stage_word
from snell.loops.grouping import Group, group_stages
from snell.loops.layouts import in_reading_order
from snell.loops.narrow import narrow_products
from snell.loops.plan import HEURISTICS
from snell.loops.reorder import reorder_results
from snell.loops.retarget import rebuilt_stage
from snell.loops.rounding import round_rows
from snell.loops.split import split_reductions
from snell.loops.stage import Stage, stages_of
from snell.loops.streaming import group_with_streams
from snell.loops.sums import store_sums
from snell.rewrite.cut import cut_nodes
from snell.rewrite.decisions import Decider, Question
from snell.rewrite.definition import Definition
from snell.rewrite.index import input_tensor
from snell.rewrite.inplace import in_place
from snell.rewrite.policy import Policy, Tag
from snell.rewrite.reassociate import reassociated
from snell.rewrite.template import Instance, instances, stored_tensors
from snell.rewrite.term import Load, Tensor, walk
from snell.symbolic import Axis, Expr, as_expr
from snell.targets import Target

__all__ = ["Rewriter", "lower_graph"]

Rewriter = Callable[[Definition], Definition]


@dataclass(slots=True)
class _Passes:
    """What the passes share over a graph and the bodies in it."""

    rewriter: Rewriter
    target: Target
    threads: int
    refines: bool
    narrows: bool
    plans: PlanSource
    decide: Decider
    times: PassTimes = field(default_factory=PassTimes)
    rewritten: dict[Definition, Definition] = field(default_factory=dict[Definition, Definition])
    built: dict[Group, BuiltKernel] = field(default_factory=dict[Group, BuiltKernel])

    def build(self, group: Group) -> BuiltKernel:
        return build_kernel(group, self.target, self.threads, self.built, prunes=self.refines, plans=self.plans)

    def joins(self, stage: Stage, pays: bool) -> bool:
        return self.decide(Question.JOIN, lambda: stage_word(stage), pays)

    def streams(self, result: Stage) -> bool:
        return self.decide(Question.STREAM, lambda: stage_word(result), True)

    def shares(self, group: Group) -> bool:
        return self.decide(Question.SHARE, lambda: group_word(group), True)

    def rewrite(self, template: Definition) -> Definition:
        if template not in self.rewritten:
            self.rewritten[template] = self.rewriter(template)
        return self.rewritten[template]


@dataclass(frozen=True, slots=True)
class _Segment:
    """Definitions between two scans, and the scans that follow them."""

    program: tuple[Instance, ...]
    scans: tuple[Repetition, ...]


def lower_graph(
    graph: Graph,
    rewriter: Rewriter,
    target: Target,
    threads: int,
    known: Sequence[Expr] = (),
    policy: Policy = Policy.DEFAULT,
    plans: PlanSource = lambda _: HEURISTICS,
    decide: Decider | None = None,
) -> Lowered:
    """Run the passes on a graph for a target and a thread count; reductions become streams where the policy refines.

    `known` are expressions of sizes that are not negative once the checks among the outputs have passed; `plans` tells
    what a search found for a group, `decide` answers what the costs of grouping leave open.
    """
    allowed = policy.allows(Tag.REFINES), policy.allows(Tag.FAST)
    return _lowered(graph, _Passes(rewriter, target, threads, *allowed, plans, decide or Decider()), known)


def _lowered(graph: Graph, passes: _Passes, known: Sequence[Expr] = ()) -> Lowered:
    with passes.times.measure("cut"):
        cut = stored_tensors(graph, cut_nodes(graph, passes.decide))
    with passes.times.measure("index"):
        program = instances(graph, cut)
    with passes.times.measure("rewrite"):
        program = tuple(replace(i, template=passes.rewrite(i.template)) for i in program)
    tensors = {**cut, **{node: input_tensor(node) for node in graph.inputs()}}
    with passes.times.measure("order"):
        program, orders = reassociated(program, _stored_names(graph, tensors)) if passes.refines else (program, ())
    with passes.times.measure("in place"):
        program, aliases = _donate(graph, program, tensors, known)
    segments = _segments(graph, program, cut)
    groups: list[Group] = []
    steps: list[Step] = []
    for place, segment in enumerate(segments):
        kept = _kept(graph, segments, place, tensors)
        made = _grouped(segment.program, kept, frozenset(aliases), passes)
        with passes.times.measure("build"):
            built = [passes.build(group) for group in made]
        with passes.times.measure("dispatch"):
            together = dispatches(built, aliases, partial(_shares, passes, made))
        groups += [made[k] for places in together for k in places]
        steps += [_side_by_side([built[k] for k in places]) for places in together]
        steps += [
            _repeated(scan, f"scan{place}.{k}" if k else f"scan{place}", tensors, passes)
            for k, scan in enumerate(segment.scans)
        ]
    return Lowered(graph, program, tuple(groups), tuple(steps), aliases, passes.times, passes.built, orders)


def _shares(passes: _Passes, groups: Sequence[Group], place: int) -> bool:
    return passes.shares(groups[place])


def _side_by_side(kernels: list[BuiltKernel]) -> Step:
    return SideBySide(tuple(kernels)) if len(kernels) > 1 else kernels[0]


def _stored_names(graph: Graph, tensors: Mapping[Node, Tensor]) -> set[str]:
    """Names of what is stored whoever reads it: outputs, and operands of scans."""
    operands = {tensors[operand.node].name for scan in repetitions(graph.nodes()) for operand in scan.operands}
    return operands | {name for name, _ in graph.outputs}


def _grouped(
    program: tuple[Instance, ...], kept: list[Tensor], updated: frozenset[Tensor], passes: _Passes
) -> list[Group]:
    with passes.times.measure("stages"):
        stages = in_reading_order(_stages(program), {*kept, *updated})
        if passes.narrows:
            stages = round_rows(stages, passes.target)
            stages = narrow_products(stages, {*kept, *updated}, passes.target)
    with passes.times.measure("group"):
        if passes.refines:
            groups = group_with_streams(stages, kept, passes.target, passes.threads, passes.joins, passes.streams)
        else:
            groups = group_stages(stages, kept, passes.target, passes.threads, passes.joins)
        groups = store_sums(split_reductions(groups, passes.target, updated), passes.target, updated)
        return reorder_results(groups, passes.target, updated)


def _segments(graph: Graph, program: tuple[Instance, ...], cut: Mapping[Node, Tensor]) -> list[_Segment]:
    """A definition comes as early as the scans allow that it reads, directly or not."""
    levels: dict[Node, int] = {}
    for node in graph.nodes():
        below = max((levels[operand.node] for operand in node.operands), default=0)
        levels[node] = below + 1 if isinstance(node.op, Structured) else below
    of_tensor = {name: levels[operand.node] for name, operand in graph.outputs}
    of_tensor |= {tensor.name: levels[node] for node, tensor in cut.items()}
    scans = repetitions(graph.nodes())
    return [
        _Segment(
            tuple(i for i in program if of_tensor[i.stored.name] == level),
            tuple(scan for scan in scans if levels[scan.results[0]] == level + 1),
        )
        for level in range(1 + max(levels.values(), default=0))
    ]


def _kept(graph: Graph, segments: list[_Segment], place: int, tensors: Mapping[Node, Tensor]) -> list[Tensor]:
    """What a segment must store: outputs, operands of scans, and what later segments read."""
    outputs = {name for name, _ in graph.outputs}
    read = {tensors[operand.node] for s in segments for scan in s.scans for operand in scan.operands}
    for later in segments[place + 1 :]:
        for instance in later.program:
            read |= {instance.tensors[own] for own in _loaded(instance.template)}
    stored = (i.stored for i in segments[place].program)
    return [tensor for tensor in stored if tensor.name in outputs or tensor in read]


def _repeated(scan: Repetition, name: str, tensors: Mapping[Node, Tensor], passes: _Passes) -> RepeatStep:
    """The scan's body lowered, on the tensors of the graph around it."""
    loop = scan.loop
    results = {node.op.result: tensors[node] for node in scan.results if isinstance(node.op, Scan)}
    body, checks = with_check_outputs(_with_steady_inputs(_needed(loop, results), loop))
    lowered = _lowered(body, passes)
    operands = [tensors[operand.node] for operand in scan.operands]
    carries = [_carry(loop, k, name, operands[k], results.get(k)) for k in range(loop.carries)]
    rows = [
        RowTensors(operands[loop.carries + k], _row(operands[loop.carries + k], f"{name}.row{k}"))
        for k in range(loop.rows)
    ]
    made = [RowTensors(results[k], _row(results[k], f"{name}.made{k}")) for k in sorted(results) if k >= loop.carries]
    stand_ins = [*(carry.before for carry in carries), *(row.row for row in rows)]
    known = dict(zip(loop.inputs, [*stand_ins, *operands[loop.carries + loop.rows :]], strict=True))
    written = [*(carry.after for carry in carries), *(row.row for row in made)]
    known |= dict(zip((n for n, _ in body.outputs[2 * len(checks) :]), written, strict=True))
    naming = Naming(name, known)
    return RepeatStep(
        name, as_expr(loop.length), tuple(carries), (*rows, *made),
        tuple(renamed_step(step, naming) for step in lowered.steps),
        tuple(renamed_check(check, naming) for check in checks), lowered,
    )  # fmt: skip


def _needed(loop: Loop, results: Mapping[int, Tensor]) -> Graph:
    """The body without rows that nobody reads; its outputs get names that no input has."""
    outputs = tuple(
        (f"next:{k}" if k < loop.carries else f"row:{k}", operand)
        for k, (_, operand) in enumerate(loop.body.outputs)
        if k < loop.carries or k in results
    )
    return Graph(outputs, loop.body.checks)


def _with_steady_inputs(body: Graph, loop: Loop) -> Graph:
    """The body with the inputs that no step changes as frozen ones: what copies them does it once, before the loop."""
    builder, known = Builder(), dict[Node, Operand]()
    steady = loop.inputs[loop.carries + loop.rows :]
    for node in body.inputs():
        if isinstance(node.op, Input) and node.op.name in steady:
            known[node] = full_view(builder.add(replace(node.op, frozen=True)))
    replay = Replay(builder, known)
    outputs = tuple((name, replay(operand)) for name, operand in body.outputs)
    checks = tuple(
        replace(check, condition=replay(check.condition), value=replay(check.value)) for check in body.checks
    )
    return Graph(outputs, checks)


def _carry(loop: Loop, place: int, name: str, initial: Tensor, result: Tensor | None) -> CarryTensors:
    shape, dtype = loop.result_type(place)
    before, after, last, spare = (
        Tensor(f"{name}.{kind}{place}", shape, dtype) for kind in ("before", "after", "last", "spare")
    )
    return CarryTensors(initial, before, after, last if result is None else result, spare)


def _row(whole: Tensor, name: str) -> Tensor:
    return Tensor(name, whole.shape[1:], whole.dtype)


def _stages(program: tuple[Instance, ...]) -> list[Stage]:
    """Every instance's stages, its hoisted reductions first, each with axes of its own."""
    made: dict[Definition, list[Stage]] = {}
    stages: list[Stage] = []
    for instance in program:
        template = instance.template
        if template not in made:
            made[template] = stages_of(template, itertools.count())
        tensors = dict(instance.tensors)
        for stage in made[template]:
            if stage.tensor not in tensors:
                tensors[stage.tensor] = replace(stage.tensor, name=f"{instance.stored.name}.{stage.tensor.name}")
        for stage in made[template]:
            axes = dict.fromkeys((*stage.axes, *stage.reduced))
            own = {axis: Axis(f"s{len(stages)}_{k}", axis.extent) for k, axis in enumerate(axes)}
            stages.append(rebuilt_stage(stage, own, tensors))
    return stages


def _donate(
    graph: Graph, program: tuple[Instance, ...], tensors: Mapping[Node, Tensor], known: Sequence[Expr]
) -> tuple[tuple[Instance, ...], dict[Tensor, Tensor]]:
    """Outputs that update a donated input nobody else reads take over its memory and write only what changes."""
    donated = {input_tensor(node) for node in graph.inputs() if _is_donated(node)}
    outputs = {name for name, _ in graph.outputs}
    readers = _readers(graph, program, tensors)
    aliases: dict[Tensor, Tensor] = {}
    updates: dict[tuple[Definition, Tensor], Definition | None] = {}
    result: list[Instance] = []
    for instance in program:
        if instance.stored.name in outputs:
            for own in _loaded(instance.template):
                source = instance.tensors[own]
                if source not in donated or source in aliases.values() or readers[source] != [instance.stored]:
                    continue
                if own.shape != instance.stored.shape or own.dtype != instance.stored.dtype:
                    continue
                key = (instance.template, own)
                if key not in updates:
                    updates[key] = in_place(*key, known)
                updated = updates[key]
                if updated is not None:
                    aliases[instance.stored] = source
                    instance = replace(instance, template=updated)
                    break
        result.append(instance)
    return tuple(result), aliases


def _readers(graph: Graph, program: Sequence[Instance], tensors: Mapping[Node, Tensor]) -> dict[Tensor, list[Tensor]]:
    """Who reads each tensor: the definitions that load it, and the results of scans on it."""
    readers: dict[Tensor, list[Tensor]] = {}
    loaded = {template: _loaded(template) for template in {i.template: None for i in program}}
    for instance in program:
        for own in loaded[instance.template]:
            readers.setdefault(instance.tensors[own], []).append(instance.stored)
    for scan in repetitions(graph.nodes()):
        for operand in scan.operands:
            readers.setdefault(tensors[operand.node], []).append(tensors[scan.results[0]])
    return readers


def _is_donated(node: Node) -> bool:
    return isinstance(node.op, Input) and node.op.donated


def _loaded(template: Definition) -> list[Tensor]:
    """Tensors that a template loads, in order of first use."""
    return list(dict.fromkeys(item.op.tensor for item in walk(template.value) if isinstance(item.op, Load)))
