"""The cost of a program that is not to be run: floating-point operations and bytes, counted on its kernels."""

from __future__ import annotations

from collections.abc import Mapping

from snell.compiler.compile import Options, lower_with
from snell.compiler.lowered import Lowered, RepeatStep
from snell.compiler.rewriting import ProgramRewriter
from snell.engine.engine import Engine
from snell.engine.report.costs import KernelCost, group_cost, plane_bytes, typical_sizes
from snell.graph.node import Graph
from snell.rewrite.decisions import Decider
from snell.symbolic import Dim

__all__ = ["program_cost"]


def program_cost(graph: Graph, engine: Engine) -> KernelCost:
    """Operations and bytes of one run at the typical sizes, as the engine would compile it; nothing is emitted."""
    options = Options(engine.target, engine.threads)
    with engine.lock:
        lowered, _ = lower_with(graph, options, ProgramRewriter(options.policy), Decider(options.grouping))
    return _cost(lowered, typical_sizes(graph))


def _cost(lowered: Lowered, sizes: Mapping[Dim, int]) -> KernelCost:
    planes = plane_bytes(lowered.graph)
    costs = [group_cost(group, sizes, planes) for group in lowered.groups]
    for step in lowered.steps:
        if isinstance(step, RepeatStep):
            times, body = float(step.length.evaluate(sizes)), _cost(step.body, sizes)
            costs.append(KernelCost(times * body.flops, times * body.bytes))
    return KernelCost(sum(cost.flops for cost in costs), sum(cost.bytes for cost in costs))
