"""Searching for the schedules of a program's kernels, and using what was found.

A record belongs to a canonical group, so what one program's search found serves every program with an equal kernel.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from snell.compiler.compile import Options, compile_graph, scheduling_target
from snell.compiler.lowered import RepeatStep, Step
from snell.config import SearchBudget
from snell.engine.version import code_version
from snell.graph.graph_inputs import input_operations
from snell.graph.node import Graph
from snell.loops.build import PlanSource
from snell.loops.group_text import group_text
from snell.loops.grouping import Group
from snell.loops.ir import Kernel
from snell.loops.plan import HEURISTICS, Plan
from snell.rewrite.cut import typical_size
from snell.rewrite.policy import Policy, Tag
from snell.search.curves import Curve
from snell.search.records import record_key
from snell.search.tuning import Moment, Progress, Tuning, TuningTask, tune
from snell.symbolic import as_expr, product

if TYPE_CHECKING:
    from snell.engine.engine import Engine

__all__ = ["recorded_plans", "spend", "tune_graph"]


def recorded_plans(engine: Engine, policy: Policy) -> PlanSource:
    """What the records say about a group."""
    if not engine.ledger.stamp():
        return lambda _: HEURISTICS
    records = engine.records

    def plan(group: Group) -> Plan:
        record = records.get(_key(engine, group, policy))
        return HEURISTICS if record is None else record.plan

    return plan


def tune_graph(engine: Engine, graph: Graph, policy: Policy, budget: float | None, progress: Progress | None) -> Tuning:
    """Search the kernels that the heuristics make of a graph."""
    with engine.lock:
        options = Options(engine.target, engine.threads, policy, engine.cache.get_or_make)
        lowered = compile_graph(graph, options).lowered
    calls = Counter[Kernel]()
    _count(lowered.steps, 1.0, calls)
    writes = {built.kernel: tuple(sorted(t.name for t in built.writes)) for built in reversed(lowered.kernels)}
    tasks = [
        TuningTask(group, built, calls[built.kernel], _key(engine, group, policy), writes[built.kernel])
        for group, built in lowered.built.items()
        if calls[built.kernel]
    ]
    curve = Curve(engine.curves, engine.key(graph, policy))

    def tell(moment: Moment) -> None:
        curve.tell(moment)
        if progress is not None:
            progress(moment)

    try:
        return tune(
            tasks, scheduling_target(engine.target, policy), engine.threads, engine.records, budget=budget,
            prunes=policy.allows(Tag.REFINES), cold_bytes=_cold_bytes(engine, graph), progress=tell,
        )  # fmt: skip
    finally:
        curve.end()


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
        else:
            calls[step.kernel] += times  # type: ignore[assignment]


def _cold_bytes(engine: Engine, graph: Graph) -> int:
    """Bytes of weights that pass between two uses of the same ones: 0 where all of them stay in the caches."""
    frozen = [operation for operation in input_operations(graph).values() if operation.frozen]
    total = sum(typical_size(product(as_expr(s) for s in op.shape)) * op.dtype.bits / 8 for op in frozen)
    return int(2 * engine.target.l3_bytes) if total > engine.target.l3_bytes else 0
