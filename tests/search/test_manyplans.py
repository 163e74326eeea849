"""Plans: every plan of the space gives a kernel with the results of the first one, or is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.search.tasks import THREADS, planned, spec, tasks

import snell as sn
from snell.codegen.host import host_target
from snell.errors import CompileError, FileFormatError
from snell.frontend import TensorSpec
from snell.loops.plan import HEURISTICS, Plan, StageChoice, TileChoice, plan_from_data, plan_to_data
from snell.runtime.pool import process_pool
from snell.search.space import Space
from snell.search.trial import Subject, Trials
from snell.symbolic import Dim

ROWS = Dim("rows", min=0, max=512, typical=(64,))
PLANS = 120


def attention(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    return sn.softmax(q @ k.transpose(-2, -1) * 0.125, axis=-1) @ v


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[TensorSpec, ...]]] = {
    "product": (lambda a, b: a @ b, (spec(67, 130), spec(130, 75))),
    "product of a symbolic number of rows": (lambda a, b: a @ b + 1, (spec(ROWS, 300), spec(300, 77))),
    "product with a frozen operand": (lambda a, b: sn.gelu(a @ b), (spec(65, 96), spec(96, 140, frozen=True))),
    "batched product of transposed operands": (
        lambda a, b: sn.einsum("bkm,bnk->bmn", a, b), (spec(3, 70, 50), spec(3, 45, 70)),
    ),
    "long product of few rows": (lambda a, b: a @ b, (spec(8, 1024), spec(1024, 1030))),
    "normalised rows": (lambda x: sn.softmax(x, axis=-1), (spec(33, 500),)),
    "normalised columns": (lambda x: sn.softmax(x, axis=0), (spec(300, 41),)),
    "layer norm": (lambda x, g: sn.layer_norm(x, g), (spec(37, 130), spec(130))),
    "elements": (lambda x, y: sn.gelu(x) + y, (spec(100, 70), spec(70))),
    "whole sum": (lambda x: sn.sum(x), (spec(300, 300),)),
    "weighted sums": (attention, (spec(2, 50, 64), spec(2, 70, 64), spec(2, 70, 64))),
    "weighted sums of long rows": (attention, (spec(2, 40, 64), spec(2, 1500, 64), spec(2, 1500, 64))),
    "window": (lambda x, w: sn.conv2d(x, w, padding=1), (spec(2, 5, 17, 19), spec(7, 5, 3, 3))),
    "gather": (lambda t, i: t[i] * 2.0, (spec(97, 70), spec(40, dtype="i32"))),
    "bf16 product": (lambda a, b: a @ b, (spec(40, 130, dtype="bf16"), spec(130, 70, dtype="bf16"))),
    "integers": (lambda a, b: a @ b, (spec(20, 30, dtype="i32"), spec(30, 40, dtype="i32"))),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mutated_plan_gives_the_results_of_the_heuristics(name: str) -> None:
    function, specs = PROGRAMS[name]
    trials = Trials(host_target(), process_pool(THREADS))
    generator = random.Random(name)
    tried = 0
    for task in tasks(function, *specs):
        space = Space(task.group, host_target())
        first = planned(task, HEURISTICS)
        dims = {dim.name: 37 for dim in task.built.kernel.dims}
        odd = tuple(dict.fromkeys(dims, size) for size in (1, 5)) if dims else ()
        frozen = tuple(t.name for stage in task.group.stages for t in stage.reads() if t.frozen)
        trials.begin(Subject(first, (dims,), odd, 2000.0, frozen))
        plan = HEURISTICS
        for _ in range(PLANS):
            plan = space.mutated(plan, generator)
            try:
                candidate = planned(task, plan)
            except CompileError:
                plan = HEURISTICS
                continue
            rejected = trials.attempt(candidate).rejected
            assert rejected is None or "times as slow" in rejected, (plan, candidate.kernel)
            tried += 1
    assert tried > PLANS // 2


def test_a_plan_goes_to_data_and_back() -> None:
    tile = TileChoice(1, None, True, 2, 6, 1)
    plan = Plan((StageChoice(tile, 0, None, 96, False), StageChoice()), rows=4, block=None)
    assert plan_from_data(plan_to_data(plan)) == plan


@pytest.mark.parametrize(
    "data",
    [{}, {"stages": 3, "rows": None, "block": None}, {"stages": [], "rows": -1, "block": None},
     {"stages": [{"tile": None, "passes": "many", "rows": None, "columns": None, "own_copies": None}],
      "rows": None, "block": None}],
)  # fmt: skip
def test_other_data_is_no_plan(data: dict[str, Any]) -> None:
    with pytest.raises(FileFormatError, match="expected a plan"):
        plan_from_data(data)


def test_a_tile_of_another_stage_is_refused() -> None:
    (task,) = tasks(lambda a, b: a @ b, spec(8, 9), spec(9, 10))
    with pytest.raises(CompileError, match="another stage"):
        planned(task, Plan((StageChoice(TileChoice(7, None, False, 1, 1, 1)),)))
