"""Searching for the schedules of a program's kernels, and using what was found.

A record belongs to a canonical group, so what one program's search found serves every program with an equal kernel.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from snell.compiler.compile import Compilation, Options, compile_graph, scheduling_target
from snell.compiler.lowered import RepeatStep, SideBySide, Step
from snell.config import SearchBudget
from snell.engine.confirmation import Finalist, confirm_finalists
from snell.engine.grouping_search import search_grouping
from snell.engine.report.costs import typical_sizes
from snell.engine.version import code_version
from snell.errors import CompileError
from snell.graph.graph_inputs import input_operations
from snell.graph.node import Graph
from snell.loops.build import BuiltKernel, PlanSource, planned_kernel
from snell.loops.group_text import group_text
from snell.loops.grouping import Group
from snell.loops.ir import Kernel
from snell.loops.plan import HEURISTICS, Plan
from snell.rewrite.cut import typical_size
from snell.rewrite.decisions import HEURISTIC_GROUPING, Grouping
from snell.rewrite.policy import Policy, Tag
from snell.search.curves import Curve
from snell.search.groupings import GroupingRecord
from snell.search.records import record_key
from snell.search.tuning import Moment, Progress, Tuning, TuningTask, tune
from snell.symbolic import as_expr, product

if TYPE_CHECKING:
    from snell.engine.engine import Engine

__all__ = ["recorded_grouping", "recorded_plans", "spend", "tune_graph"]

_GROUPING = 0.15  # of a budget: for what is stored and what shares a kernel
_LEAST_GROUPING_SECONDS = 1.0  # less does not compile two programs: it is the schedules'
_GROUPING_SECONDS = 20.0  # without a budget
_CONFIRMING = 0.15  # of a budget: for the whole program
_CONFIRMING_SECONDS = 20.0  # without a budget


def recorded_plans(engine: Engine, policy: Policy) -> PlanSource:
    """What the records say about a group."""
    if not engine.ledger.stamp():
        return lambda _: HEURISTICS
    records = engine.records

    def plan(group: Group) -> Plan:
        record = records.get(_key(engine, group, policy))
        return HEURISTICS if record is None else record.plan

    return plan


def recorded_grouping(engine: Engine, graph: Graph, policy: Policy) -> Grouping:
    """What the records say about the grouping of a program."""
    if not engine.ledger.stamp():
        return HEURISTIC_GROUPING
    record = engine.groupings.get(engine.key(graph, policy))
    return HEURISTIC_GROUPING if record is None else record.grouping


def tune_graph(engine: Engine, graph: Graph, policy: Policy, budget: float | None, progress: Progress | None) -> Tuning:
    """Search the grouping of a graph, then its kernels, then time the whole program with what was found."""
    begin = time.monotonic()
    try:
        grouping = _search_grouping(engine, graph, policy, budget)
    except KeyboardInterrupt:
        return Tuning((), (), None, interrupted=True)
    spent = time.monotonic() - begin
    with engine.lock:
        options = Options(engine.target, engine.threads, policy, engine.cache.get_or_make, grouping=grouping.grouping)
        compilation = compile_graph(graph, options)
    tasks = _tasks(engine, compilation)
    curve = Curve(engine.curves, engine.key(graph, policy))

    def tell(moment: Moment) -> None:
        curve.tell(moment)
        if progress is not None:
            progress(moment)

    try:
        found = tune(
            tasks, scheduling_target(engine.target, policy), engine.threads, engine.records,
            budget=None if budget is None else (1.0 - _CONFIRMING) * budget - spent, prunes=policy.allows(Tag.REFINES),
            cold_bytes=_cold_bytes(engine, graph), progress=tell,
        )  # fmt: skip
    finally:
        curve.end()
    found = replace(found, grouping=grouping)
    left = _CONFIRMING_SECONDS if budget is None else max(_CONFIRMING * budget, begin + budget - time.monotonic())
    return found if found.interrupted else _confirmed(engine, graph, compilation, tasks, found, left)


def _search_grouping(engine: Engine, graph: Graph, policy: Policy, budget: float | None) -> GroupingRecord:
    """The best grouping known after this search, which is recorded; a decision is tried once."""
    key = engine.key(graph, policy)
    known = engine.groupings.get(key) or GroupingRecord(HEURISTIC_GROUPING, 1.0)
    seconds = _GROUPING_SECONDS if budget is None else _GROUPING * budget
    if seconds < _LEAST_GROUPING_SECONDS:
        return known
    with engine.lock:
        options = Options(engine.target, engine.threads, policy, engine.cache.get_or_make)
        found = search_grouping(graph, options, engine.pool(), seconds, known)
    if found != known:
        engine.groupings.put(key, found)
    return found


def _tasks(engine: Engine, compilation: Compilation) -> list[TuningTask]:
    """The distinct kernels of a program."""
    lowered, policy = compilation.lowered, compilation.options.policy
    calls = Counter[Kernel]()
    _count(lowered.steps, 1.0, calls)
    writes = {built.kernel: tuple(sorted(t.name for t in built.writes)) for built in reversed(lowered.kernels)}
    return [
        TuningTask(group, built, calls[built.kernel], _key(engine, group, policy), writes[built.kernel])
        for group, built in lowered.built.items()
        if calls[built.kernel]
    ]


def _confirmed(
    engine: Engine, graph: Graph, compilation: Compilation, tasks: Sequence[TuningTask], found: Tuning, seconds: float
) -> Tuning:
    """The result with the whole program's time; records that do not help it are taken back.  An interrupt leaves them."""
    records, known = engine.records, {task.key: task for task in tasks}
    plans = {k.key: record.plan for k in found.kernels if (record := records.get(k.key)) is not None and k.ratio < 1.0}
    try:
        finalists = [
            Finalist(k.key, known[k.key].built, _planned(engine, known[k.key], plans[k.key], compilation), k.won)
            for k in found.kernels
            if k.key in plans
        ]
        sizes = typical_sizes(graph)
        confirmation = confirm_finalists(compilation, sizes, finalists, found.ratio, engine.pool(), seconds)
    except KeyboardInterrupt:
        return replace(found, interrupted=True)
    except CompileError:
        return found  # a record of a plan that does not fit any more: compiling says so
    if confirmation is None:
        return found
    for key in confirmation.taken_back:
        record = records.get(key)
        if record is not None and record.plan == plans[key]:
            records.drop(key)
    kernels = tuple(replace(k, taken_back=k.key in confirmation.taken_back) for k in found.kernels)
    return replace(found, kernels=kernels, whole=confirmation.ratio)


def _planned(engine: Engine, task: TuningTask, plan: Plan, compilation: Compilation) -> BuiltKernel:
    policy = compilation.options.policy
    target = scheduling_target(engine.target, policy)
    return planned_kernel(task.group, target, engine.threads, plan, prunes=policy.allows(Tag.REFINES))


def spend(engine: Engine, graph: Graph, policy: Policy, program: str, budget: SearchBudget) -> None:
    """Search for what is left of a budget, and note that it was spent; an interrupt is passed on, what was found stays."""
    seconds = None if budget == "full" else float(budget) - engine.ledger.spent(program)
    begin = time.monotonic()
    found = tune_graph(engine, graph, policy, seconds, None)
    if found.interrupted:
        engine.ledger.spend(program, time.monotonic() - begin)
        raise KeyboardInterrupt
    engine.ledger.spend(program, math.inf if seconds is None else seconds)


def _key(engine: Engine, group: Group, policy: Policy) -> str:
    text = f"{group_text(group)}\nprunes {policy.allows(Tag.REFINES)}"
    return record_key(text, engine.target, engine.threads, code_version())


def _count(steps: Iterable[Step], times: float, calls: Counter[Kernel]) -> None:
    """How often a call of the program calls each kernel, at typical sizes."""
    for step in steps:
        if isinstance(step, RepeatStep):
            _count(step.steps, times * typical_size(step.length), calls)
            continue
        for built in step.kernels if isinstance(step, SideBySide) else (step,):
            calls[built.kernel] += times  # type: ignore[assignment]


def _cold_bytes(engine: Engine, graph: Graph) -> int:
    """Bytes of weights that pass between two uses of the same ones: 0 where all of them stay in the caches."""
    frozen = [operation for operation in input_operations(graph).values() if operation.frozen]
    total = sum(typical_size(product(as_expr(s) for s in op.shape)) * op.dtype.bits / 8 for op in frozen)
    return int(2 * engine.target.l3_bytes) if total > engine.target.l3_bytes else 0
