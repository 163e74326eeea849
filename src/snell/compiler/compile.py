"""Compiling a graph: from a graph to a program that can be saved, loaded and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from snell.codegen.host import host_target
from snell.compiler.assemble import Assembled, assemble
from snell.compiler.checks import with_check_outputs
from snell.compiler.lowering import Lowered, PassTimes, lower_graph
from snell.compiler.objects import KernelCompiler, ObjectSource
from snell.compiler.rewriting import ProgramRewriter
from snell.errors import CompileError
from snell.graph.graph_inputs import input_operations
from snell.graph.node import Graph
from snell.graph.primitives import Input
from snell.rewrite.rewrite import Policy, RewriteReport
from snell.runtime.executable import Executable
from snell.runtime.main import with_main
from snell.runtime.pool import Pool
from snell.runtime.program import Program, Role
from snell.targets import Target

__all__ = ["Compilation", "Options", "bind", "compile_graph"]

_RESULT = "result:"


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile: target, threads the schedules are made for, precision policy, and the object cache."""

    target: Target
    threads: int
    policy: Policy = Policy.DEFAULT
    fetch: ObjectSource = lambda _, build: build()


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled graph: the programs, the names of its outputs in order, and what the passes did (for `explain`)."""

    assembled: Assembled
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    lowered: Lowered
    kernels: KernelCompiler
    reports: tuple[tuple[str, RewriteReport], ...]
    times: PassTimes


def compile_graph(graph: Graph, options: Options) -> Compilation:
    """Run every pass; raises CompileError with the pass's own message."""
    if options.target.name == "":
        raise CompileError("the target has no name; use snell.codegen.host.host_target()")
    checked, checks = with_check_outputs(graph)
    renamed = Graph(tuple((_inner(name, graph), operand) for name, operand in checked.outputs))
    rewriter = ProgramRewriter(options.policy)
    lowered = lower_graph(renamed, rewriter, options.target, options.threads)
    kernels = KernelCompiler(options.target, options.fetch)
    with lowered.times.measure("emit and compile"):
        assembled = assemble(lowered, checks, kernels)
    with lowered.times.measure("main"):
        assembled = Assembled(
            with_main(assembled.program.verify(), options.target),
            None if assembled.prepare is None else with_main(assembled.prepare.verify(), options.target),
        )
    inputs = tuple(name for name, op in input_operations(graph).items() if not op.frozen)
    outputs = tuple(name for name, _ in graph.outputs)
    return Compilation(assembled, outputs, inputs, lowered, kernels, tuple(rewriter.reports), lowered.times)


def _inner(name: str, graph: Graph) -> str:
    """Outputs get names of their own, so that one may be called as an input is."""
    return _RESULT + name if any(name == own for own, _ in graph.outputs) else name


def bind(assembled: Assembled, frozen: Mapping[str, Any], pool: Pool | None = None) -> Executable:
    """An executable with its weights bound; packed ones are made here, once."""
    available: dict[str, Any] = dict(frozen)
    if assembled.prepare is not None:
        available |= _packed(assembled.prepare, frozen, pool)
    wanted = _frozen_names(assembled.program)
    missing = [name for name in wanted if name not in available]
    if missing:
        raise CompileError(f"frozen inputs {missing} have no array; give each of them when binding")
    return Executable(assembled.program, {name: available[name] for name in wanted}, pool)


def _packed(prepare: Program, frozen: Mapping[str, Any], pool: Pool | None) -> dict[str, Any]:
    packing = Executable(prepare, {name: frozen[name] for name in _frozen_names(prepare)}, pool)
    names = [prepare.buffers[slot].name for slot in prepare.slots(Role.OUTPUT)]
    return dict(zip(names, packing(), strict=True))


def _frozen_names(program: Program) -> list[str]:
    return [program.buffers[slot].name for slot in program.slots(Role.FROZEN)]


def default_options(threads: int, fetch: Callable[[str, Callable[[], bytes]], bytes] | None = None) -> Options:
    """Options for this machine."""
    options = Options(host_target(), threads)
    return options if fetch is None else replace(options, fetch=fetch)


def is_donated(graph: Graph, name: str) -> bool:
    """Whether an input may be overwritten."""
    operation = input_operations(graph).get(name)
    return isinstance(operation, Input) and operation.donated
