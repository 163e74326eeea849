"""The model ranks plans before any is timed: what idles a thread, repeats loads or passes too often costs more."""

from __future__ import annotations

import pytest
from tests.search.tasks import spec, tasks

import snell as sn
from snell.loops.plan import HEURISTICS, Plan, StageChoice
from snell.search.model import Model
from snell.search.space import Space
from snell.search.tuning import TuningTask
from snell.targets import AVX512

THREADS = 2
ROWS = tasks(lambda x: sn.softmax(x, axis=-1), spec(64, 4096))[-1]
PRODUCT = tasks(lambda a, b: a @ b, spec(32, 768), spec(768, 3072))[-1]


def cycles(task: TuningTask, plan: Plan) -> float:
    return Model(Space(task.group, AVX512).stages, task.group, AVX512, THREADS).cycles(plan)


def test_rows_of_a_group_in_one_ticket_leave_a_thread_idle() -> None:
    even, uneven, one = (cycles(ROWS, Plan(rows=rows)) for rows in (32, 48, 64))
    assert uneven == pytest.approx(1.5 * even, rel=0.01)
    assert one == pytest.approx(2.0 * even, rel=0.01)


def test_a_last_ticket_that_comes_late_counts() -> None:
    halves, late, one = (cycles(PRODUCT, Plan((StageChoice(rows=32, columns=n),))) for n in (1536, 2304, 3072))
    assert halves < late < one


def test_short_passes_cost_what_becomes_of_their_sums() -> None:
    short, longer = (cycles(PRODUCT, Plan((StageChoice(passes=n),))) for n in (8, 256))
    assert short > longer


def test_a_tile_that_repeats_its_loads_costs_more_than_a_square_one() -> None:
    space = Space(PRODUCT.group, AVX512)
    plans = {(p.stages[0].tile.vectors, p.stages[0].tile.count): p for p in space.neighbours() if p.stages[0].tile}
    square = cycles(PRODUCT, plans.get((3, 8), HEURISTICS))
    narrow = [cycles(PRODUCT, plan) for (vectors, count), plan in plans.items() if vectors == 1]
    assert narrow
    assert min(narrow) > square
