"""Compiling a graph: from a graph to a program that can be saved, loaded and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from snell.compiler.assemble import assemble
from snell.compiler.checks import CheckOutput, sizes_known, with_check_outputs
from snell.compiler.kernel_swaps import KernelSwaps, swapped_kernels
from snell.compiler.lowered import Lowered, PassTimes
from snell.compiler.lowering import Rewriter, lower_graph
from snell.compiler.rewriting import ProgramRewriter, RewrittenDefinition
from snell.graph.node import Graph
from snell.loops.build import PlanSource
from snell.loops.plan import HEURISTICS
from snell.rewrite.decisions import HEURISTIC_GROUPING, Decider, Grouping
from snell.rewrite.policy import Policy, Tag
from snell.runtime.binding import Assembled
from snell.runtime.kernels import KernelCompiler, ObjectSource, Progress
from snell.runtime.main import with_main
from snell.targets import Target

__all__ = ["Compilation", "Options", "compile_graph", "lower_with", "scheduling_target", "with_kernels"]

_RESULT = "result:"


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile: target, threads the schedules are made for, precision policy, the object cache, whom to tell, and
    what a search found for a group and about the grouping."""

    target: Target
    threads: int
    policy: Policy = Policy.DEFAULT
    fetch: ObjectSource = lambda _, build: build()
    progress: Progress | None = None
    plans: PlanSource = lambda _: HEURISTICS
    grouping: Grouping = HEURISTIC_GROUPING


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled graph: the programs, its outputs' names in order, and what the passes did (for `explain`)."""

    assembled: Assembled
    outputs: tuple[str, ...]
    lowered: Lowered
    checks: tuple[CheckOutput, ...]
    kernels: KernelCompiler
    rewritten: tuple[RewrittenDefinition, ...]
    times: PassTimes
    options: Options


def compile_graph(graph: Graph, options: Options) -> Compilation:
    """Run every pass; a pass that cannot go on raises CompileError."""
    if options.progress is not None:
        options.progress(0, 0)
    rewriter = ProgramRewriter(options.policy)
    lowered, checks = lower_with(graph, options, rewriter, Decider(options.grouping))
    distinct = {built.kernel for kernel in lowered.kernels for built in (kernel, *kernel.prepares)}
    kernels = KernelCompiler(options.target, options.fetch, options.progress, len(distinct))
    if options.progress is not None:
        options.progress(0, len(distinct))
    assembled = _linked(lowered, checks, kernels)
    outputs = tuple(name for name, _ in graph.outputs)
    rewritten = tuple(rewriter.rewritten)
    return Compilation(assembled, outputs, lowered, checks, kernels, rewritten, lowered.times, options)


def lower_with(
    graph: Graph, options: Options, rewriter: Rewriter, decide: Decider
) -> tuple[Lowered, tuple[CheckOutput, ...]]:
    """The passes up to kernels, and the outputs that are checks; `decide` answers what the costs of grouping leave open."""
    checked, checks = with_check_outputs(graph)
    renamed = Graph(tuple((_inner(name, graph), operand) for name, operand in checked.outputs))
    target = scheduling_target(options.target, options.policy)
    known = sizes_known(graph)
    lowered = lower_graph(renamed, rewriter, target, options.threads, known, options.policy, options.plans, decide)
    return lowered, checks


def with_kernels(compilation: Compilation, swaps: KernelSwaps) -> Assembled:
    """The same program with other kernels in the place of some: nothing but those is compiled anew."""
    return _linked(swapped_kernels(compilation.lowered, swaps), compilation.checks, compilation.kernels)


def _linked(lowered: Lowered, checks: Sequence[CheckOutput], kernels: KernelCompiler) -> Assembled:
    """The lowered kernels compiled and put together, each program with its `main`."""
    with lowered.times.measure("emit and compile"):
        assembled = assemble(lowered, checks, kernels)
    with lowered.times.measure("main"):
        return Assembled(
            with_main(assembled.program.verify(), kernels.target),
            None if assembled.prepare is None else with_main(assembled.prepare.verify(), kernels.target),
        )


def _inner(name: str, graph: Graph) -> str:
    """Outputs get names of their own, so that one may be called as an input is."""
    return _RESULT + name if any(name == own for own, _ in graph.outputs) else name


def scheduling_target(target: Target, policy: Policy) -> Target:
    """The target, without the instructions that change subnormal results where the program is to run as written."""
    return target if policy.allows(Tag.REFINES) else replace(target, products=())
