"""Kernels to search in tests: what the compiler makes of a function for this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snell.codegen.host import host_target
from snell.compiler.lowering import lower_graph
from snell.compiler.rewriting import ProgramRewriter
from snell.frontend import TensorSpec, trace
from snell.graph.node import Graph
from snell.loops.build import planned_kernel
from snell.loops.plan import Plan
from snell.rewrite.policy import Policy
from snell.search.candidate import Candidate, candidate_of
from snell.search.tuning import TuningTask

THREADS = 2


def tasks(function: Callable[..., Any], *specs: TensorSpec) -> list[TuningTask]:
    """The distinct kernels of a function of tensors, one call each."""
    graph = trace(function, specs, tuple(f"x{k}" for k in range(len(specs)))).graph
    renamed = Graph(tuple((f"out{k}", operand) for k, (_, operand) in enumerate(graph.outputs)), graph.checks)
    lowered = lower_graph(renamed, ProgramRewriter(Policy.DEFAULT), host_target(), THREADS)
    writes = {built.kernel: tuple(sorted(t.name for t in built.writes)) for built in lowered.kernels}
    return [
        TuningTask(group, built, 1.0, f"key {k}", writes[built.kernel])
        for k, (group, built) in enumerate(lowered.built.items())
    ]


def planned(task: TuningTask, plan: Plan) -> Candidate:
    """A task's kernel under a plan."""
    return candidate_of(planned_kernel(task.group, host_target(), THREADS, plan))


def spec(*shape: Any, dtype: str = "f32", **options: Any) -> TensorSpec:
    return TensorSpec.of(shape, dtype, **options)
