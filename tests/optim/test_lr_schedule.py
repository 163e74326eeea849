"""Schedules follow PyTorch's schedulers, step by step, computed in a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.optim.judge import compiled_step
from torch.optim import lr_scheduler

import snell as sn
from snell.optim import LrSchedule, lr_schedule

STEPS = 30


def torch_rates(rate: float, make: Callable[[torch.optim.Optimizer], Any], steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], rate)
    scheduler = make(optimizer)
    found: list[float] = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def compiled_rates(schedule: LrSchedule, steps: int) -> list[float]:
    """What sgd subtracts for gradients of 1, step by step."""
    transform = sn.optim.sgd(schedule)
    step = compiled_step(transform)
    start, gradient = {"w": np.zeros((), np.float32)}, {"w": np.ones((), np.float32)}
    state = transform.init(start)
    found: list[float] = []
    for _ in range(steps):
        after, state = step(start, state, gradient)
        found.append(-float(after["w"]))
    return found


CASES: dict[str, tuple[LrSchedule, float, Callable[[torch.optim.Optimizer], Any], int]] = {
    "cosine": (
        lr_schedule.cosine(0.5, steps=STEPS, final=0.1), 0.5,
        lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, 0.1), STEPS,
    ),
    "linear": (
        lr_schedule.linear(0.5, 0.1, steps=20), 0.5,
        lambda o: lr_scheduler.LinearLR(o, 1.0, 0.2, 20), STEPS,
    ),
    "step": (lr_schedule.step(0.5, every=7, factor=0.3), 0.5, lambda o: lr_scheduler.StepLR(o, 7, 0.3), STEPS),
    "multi_step": (
        lr_schedule.multi_step(0.5, (4, 9), factor=0.3), 0.5,
        lambda o: lr_scheduler.MultiStepLR(o, [4, 9], 0.3), STEPS,
    ),
    "one_cycle": (
        lr_schedule.one_cycle(0.5, steps=STEPS), 0.5, lambda o: lr_scheduler.OneCycleLR(o, 0.5, STEPS), STEPS,
    ),
    "warm_up": (
        lr_schedule.warm_up(5, lr_schedule.cosine(0.5, steps=20), initial=0.1), 0.5,
        lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.LinearLR(o, 0.2, 1.0, 5), lr_scheduler.CosineAnnealingLR(o, 20)], [5]
        ), 25,
    ),
    "joined": (
        lr_schedule.joined([lr_schedule.constant(0.25), lr_schedule.step(0.5, every=3)], [6]), 0.5,
        lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.ConstantLR(o, 0.5, 100), lr_scheduler.StepLR(o, 3)], [6]
        ), 15,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyTorch's schedulers about the order of their own calls
def test_a_schedule_follows_that_of_torch(case: str) -> None:
    schedule, rate, judge, steps = CASES[case]
    np.testing.assert_allclose(compiled_rates(schedule, steps), torch_rates(rate, judge, steps), rtol=2e-6, atol=1e-9)


def test_a_schedule_ends_at_its_final_value_and_stays_there() -> None:
    values = [float(lr_schedule.cosine(1.0, steps=4, final=0.5)(k)) for k in (0, 2, 4, 400)]
    assert values == [1.0, 0.75, 0.5, 0.5]


def test_a_warm_up_begins_at_zero_before_a_plain_number() -> None:
    values = [float(lr_schedule.warm_up(4, 2.0)(k)) for k in range(6)]
    assert values == [0.0, 0.5, 1.0, 1.5, 2.0, 2.0]


METRICS = [
    1.0,
    0.9,
    0.9,
    0.95,
    0.91,
    0.92,
    0.5,
    0.6,
    0.6,
    0.6,
    0.6,
    0.49995,
    0.49991,
    0.7,
    0.7,
    0.7,
    0.2,
    0.3,
    0.3,
    0.3,
]


@pytest.mark.parametrize(
    ("options", "of_torch"),
    [
        ({}, {}),
        ({"cooldown": 2, "minimum": 0.02}, {"cooldown": 2, "min_lr": 0.02}),
        ({"relative": False, "threshold": 0.2}, {"threshold_mode": "abs", "threshold": 0.2}),
        ({"lower_is_better": False}, {"mode": "max"}),
    ],
)
def test_a_plateau_lowers_the_rate_when_that_of_torch_does(options: dict[str, Any], of_torch: dict[str, Any]) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.5)
    judge = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, **of_torch)
    plateau = lr_schedule.reduce_on_plateau(factor=0.5, patience=2, **options)
    update = sn.compile(plateau.update)
    watch, found, expected = plateau.init(0.5), [], []
    for metric in METRICS:
        judge.step(metric)
        watch = update(watch, np.float32(metric))
        found.append(float(watch["value"]))
        expected.append(optimizer.param_groups[0]["lr"])
    assert len(set(expected)) > 1
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_plateau_outside_of_a_program_gives_arrays_and_sets_the_rate_of_an_optimizer() -> None:
    plateau = lr_schedule.reduce_on_plateau(patience=0)
    watch = plateau.init(1e-2)
    for loss in (1.0, 2.0):
        watch = plateau.update(watch, loss)
    assert all(isinstance(leaf, np.ndarray) for leaf in sn.tree.leaves(watch))
    state = sn.optim.sgd(1e-2).init({"w": np.zeros(1, np.float32)})
    state = sn.optim.with_hyperparameters(state, learning_rate=watch["value"])
    assert float(state["hyperparameters"]["learning_rate"]) == pytest.approx(1e-3)
