"""The reference check: a first kernel that differs from its definition is told of and not searched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.search.tasks import THREADS, planned, spec, tasks
from tests.search.test_plans import PROGRAMS

import snell as sn
from snell.codegen.host import host_target
from snell.loops.plan import HEURISTICS
from snell.runtime.pool import process_pool
from snell.search.records import Records
from snell.search.reference import expected_values
from snell.search.trial import Subject, Trials, WrongKernelError
from snell.search.tuning import Moment, TuningTask, tune
from snell.search.worker_process import Worker
from snell.symbolic import Dim

ROWS = Dim("rows", min=0, max=512, typical=(64,))
PRODUCT = tasks(lambda a, b: a @ b + 1, spec(40, 50), spec(50, 70))[0]


def subject(task: TuningTask, sizes: dict[str, int]) -> Subject:
    first = planned(task, HEURISTICS)
    return Subject(first, (sizes,), (), 2000.0, expected=expected_values(task.group, first, sizes))


def wrong(made: Subject) -> Subject:
    return replace(made, first=replace(made.first, kernel=made.first.kernel.replace("Mul(", "Add(")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_heuristics_make_is_what_its_definition_says(name: str) -> None:
    function, specs = PROGRAMS[name]
    trials = Trials(host_target(), process_pool(THREADS))
    for task in tasks(function, *specs):
        made = subject(task, {dim.name: 37 for dim in task.built.kernel.dims})
        assert {item.buffer for item in made.expected} == set(made.first.writes)
        trials.begin(made)


def test_a_sample_has_the_first_and_the_last_position() -> None:
    (item,) = subject(PRODUCT, {}).expected
    assert {0, 40 * 70 - 1} <= set(item.places)


def test_a_first_kernel_that_is_wrong_is_refused_before_it_is_timed() -> None:
    trials = Trials(host_target(), process_pool(THREADS))
    with pytest.raises(WrongKernelError, match=r"b2: .* values differ, first at .* in a sample"):
        trials.begin(wrong(subject(PRODUCT, {})))


def test_a_wrong_kernel_is_checked_at_sizes_with_tails() -> None:
    (task,) = tasks(lambda x: x * 3 + 1, spec(ROWS, 30))
    first = planned(task, HEURISTICS)
    sizes = {"rows": 37}
    made = Subject(first, ({"rows": 64},), (sizes,), 1.0, expected=expected_values(task.group, first, sizes))
    with pytest.raises(WrongKernelError, match=r"at sizes \{'rows': 37\}"):
        Trials(host_target(), process_pool(THREADS)).begin(wrong(made))


def test_the_worker_passes_the_error_on() -> None:
    with Worker(THREADS) as worker, pytest.raises(WrongKernelError, match="values differ"):
        worker.begin(wrong(subject(PRODUCT, {})))


def test_a_wrong_kernel_is_told_of_and_the_others_are_searched(tmp_path: Path) -> None:
    (other,) = tasks(lambda x: sn.exp(x), spec(64, 64))
    (meant,) = tasks(lambda a, b: a @ b + 2, spec(40, 50), spec(50, 70))
    broken = replace(PRODUCT, group=meant.group)

    def stop(_: Moment) -> None:
        raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match=r"the kernel that computes .* is wrong and was not searched"):
        found = tune(
            [broken, other], host_target(), THREADS, Records(tmp_path, 1 << 20),
            budget=600.0, prunes=True, progress=stop,
        )  # fmt: skip
    assert len(found.wrong) == 1
    assert [kernel.key for kernel in found.kernels] == [other.key]


def test_what_takes_too_long_to_evaluate_is_not_checked() -> None:
    (task,) = tasks(lambda x: sn.exp(x), spec(8192, 8192))
    assert expected_values(task.group, planned(task, HEURISTICS), {}) == ()
