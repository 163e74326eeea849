"""The pipeline's middle as named, timed passes: a graph becomes kernels and a list of calls.

    graph ──cut──▶ stored nodes ──index──▶ definitions ──rewrite──▶ definitions ──in place──▶ definitions
          ──stages──▶ stages ──group──▶ groups ──build──▶ kernels

Every pass is a function from one frozen value to the next; `Lowered` keeps each of them for `explain`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from snell.graph.node import Graph, Node
from snell.graph.primitives import Input
from snell.loops.build import BuiltKernel, build_kernel
from snell.loops.grouping import Group, group_stages
from snell.loops.retarget import rebuilt_stage, retarget_term
from snell.loops.stage import Stage, stages_of
from snell.rewrite.cut import cut_nodes
from snell.rewrite.definition import Definition
from snell.rewrite.index import input_tensor
from snell.rewrite.inplace import in_place
from snell.rewrite.template import Instance, instances
from snell.rewrite.term import Load, Tensor, walk
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["Lowered", "PassTimes", "Rewriter", "lower_graph"]

Rewriter = Callable[[Definition], Definition]


@dataclass(slots=True)
class PassTimes:
    """Seconds spent in each named pass, in the order they first ran."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def measure(self, name: str) -> Generator[None, None, None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Lowered:
    """Everything the passes made: `aliases` maps an output tensor to the donated input whose memory it takes over."""

    graph: Graph
    program: tuple[Instance, ...]
    groups: tuple[Group, ...]
    kernels: tuple[BuiltKernel, ...]
    aliases: dict[Tensor, Tensor]
    times: PassTimes

    def definitions(self) -> tuple[Definition, ...]:
        """The program as definitions over its own tensors."""
        return tuple(
            replace(i.template, tensor=i.stored, value=retarget_term(i.template.value, i.tensors)) for i in self.program
        )


def lower_graph(graph: Graph, rewriter: Rewriter, target: Target, threads: int) -> Lowered:
    """Run the passes on a graph for a target and a thread count."""
    times = PassTimes()
    with times.measure("cut"):
        stored = cut_nodes(graph)
    with times.measure("index"):
        program = instances(graph, stored)
    with times.measure("rewrite"):
        templates = {instance.template: None for instance in program}
        rewritten = {template: rewriter(template) for template in templates}
        program = tuple(replace(i, template=rewritten[i.template]) for i in program)
    with times.measure("in place"):
        program, aliases = _donate(graph, program)
    with times.measure("stages"):
        stages = _stages(program)
    with times.measure("group"):
        outputs = {name for name, _ in graph.outputs}
        kept = [i.stored for i in program if i.stored.name in outputs]
        groups = tuple(group_stages(stages, kept, target, threads))
    with times.measure("build"):
        built: dict[Group, BuiltKernel] = {}
        kernels = tuple(build_kernel(group, target, threads, built) for group in groups)
    return Lowered(graph, program, groups, kernels, aliases, times)


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


def _donate(graph: Graph, program: tuple[Instance, ...]) -> tuple[tuple[Instance, ...], dict[Tensor, Tensor]]:
    """Outputs that update a donated input nobody else reads take over its memory and write only what changes."""
    donated = {input_tensor(node) for node in graph.inputs() if _is_donated(node)}
    outputs = {name for name, _ in graph.outputs}
    readers: dict[Tensor, list[Tensor]] = {}
    loaded = {template: _loaded(template) for template in {i.template: None for i in program}}
    for instance in program:
        for own in loaded[instance.template]:
            readers.setdefault(instance.tensors[own], []).append(instance.stored)
    aliases: dict[Tensor, Tensor] = {}
    updates: dict[tuple[Definition, Tensor], Definition | None] = {}
    result: list[Instance] = []
    for instance in program:
        if instance.stored.name in outputs:
            for own in loaded[instance.template]:
                source = instance.tensors[own]
                if source not in donated or source in aliases.values() or readers[source] != [instance.stored]:
                    continue
                if own.shape != instance.stored.shape or own.dtype != instance.stored.dtype:
                    continue
                key = (instance.template, own)
                if key not in updates:
                    updates[key] = in_place(*key)
                updated = updates[key]
                if updated is not None:
                    aliases[instance.stored] = source
                    instance = replace(instance, template=updated)
                    break
        result.append(instance)
    return tuple(result), aliases


def _is_donated(node: Node) -> bool:
    return isinstance(node.op, Input) and node.op.donated


def _loaded(template: Definition) -> list[Tensor]:
    """Tensors that a template loads, in order of first use."""
    return list(dict.fromkeys(item.op.tensor for item in walk(template.value) if isinstance(item.op, Load)))
