"""The pipeline's middle as named, timed passes: a graph becomes kernels and a list of calls.

    graph ──cut──▶ stored nodes ──index──▶ definitions ──rewrite──▶ definitions ──in place──▶ definitions
          ──stages──▶ stages ──group──▶ groups ──build──▶ kernels

Every pass is a function from one frozen value to the next; `Lowered` keeps each of them for `explain`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from snell.graph.node import Graph, Node
from snell.graph.primitives import Input
from snell.loops.build import BuiltKernel, build_kernel
from snell.loops.grouping import Group, group_stages
from snell.loops.stage import stages_of
from snell.rewrite.cut import cut_nodes
from snell.rewrite.definition import Definition
from snell.rewrite.index import definitions, input_tensor
from snell.rewrite.inplace import in_place
from snell.rewrite.term import Load, Tensor, walk
from snell.targets import Target

__all__ = ["Lowered", "PassTimes", "Rewriter", "lower_graph"]

Rewriter = Callable[[tuple[Definition, ...]], tuple[Definition, ...]]
T = TypeVar("T")


@dataclass(slots=True)
class PassTimes:
    """Seconds spent in each named pass, in the order they first ran."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Lowered:
    """Everything the passes made: `aliases` maps an output tensor to the donated input whose memory it takes over."""

    graph: Graph
    definitions: tuple[Definition, ...]
    groups: tuple[Group, ...]
    kernels: tuple[BuiltKernel, ...]
    aliases: dict[Tensor, Tensor]
    times: PassTimes


def lower_graph(graph: Graph, rewriter: Rewriter, target: Target, threads: int) -> Lowered:
    """Run the passes on a graph for a target and a thread count."""
    times = PassTimes()
    with times.measure("cut"):
        stored = cut_nodes(graph)
    with times.measure("index"):
        program = definitions(graph, stored)
    with times.measure("rewrite"):
        program = rewriter(program)
    with times.measure("in place"):
        program, aliases = _donate(graph, program)
    with times.measure("stages"):
        fresh = itertools.count()
        stages = [stage for definition in program for stage in stages_of(definition, fresh)]
    with times.measure("group"):
        outputs = {name for name, _ in graph.outputs}
        kept = [d.tensor for d in program if d.tensor.name in outputs]
        groups = tuple(group_stages(stages, kept, target, threads))
    with times.measure("build"):
        built: dict[Group, BuiltKernel] = {}
        kernels = tuple(build_kernel(group, target, threads, built) for group in groups)
    return Lowered(graph, program, groups, kernels, aliases, times)


def _donate(graph: Graph, program: tuple[Definition, ...]) -> tuple[tuple[Definition, ...], dict[Tensor, Tensor]]:
    """Outputs that update a donated input nobody else reads take over its memory and write only what changes."""
    donated = {input_tensor(node) for node in graph.inputs() if _is_donated(node)}
    outputs = {name for name, _ in graph.outputs}
    readers: dict[Tensor, list[Tensor]] = {}
    for definition in program:
        for tensor in _loaded(definition):
            readers.setdefault(tensor, []).append(definition.tensor)
    aliases: dict[Tensor, Tensor] = {}
    result: list[Definition] = []
    for definition in program:
        updated = None
        if definition.tensor.name in outputs:
            for tensor in sorted(_loaded(definition) & donated, key=lambda t: t.name):
                same = tensor.shape == definition.tensor.shape and tensor.dtype == definition.tensor.dtype
                if same and readers[tensor] == [definition.tensor] and tensor not in aliases.values():
                    updated = in_place(definition, tensor)
                if updated is not None:
                    aliases[definition.tensor] = tensor
                    break
        result.append(updated or definition)
    return tuple(result), aliases


def _is_donated(node: Node) -> bool:
    return isinstance(node.op, Input) and node.op.donated


def _loaded(definition: Definition) -> set[Tensor]:
    return {item.op.tensor for item in walk(definition.value) if isinstance(item.op, Load)}


