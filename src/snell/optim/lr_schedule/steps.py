"""Schedules that fall at once: every so many updates, or at given ones."""

from __future__ import annotations

from collections.abc import Sequence

from snell.frontend import Tensor, floor, less, power, where
from snell.optim.lr_schedule.schedule import LrSchedule, ScheduleNumbers, check_length

__all__ = ["multi_step", "step"]


def step(initial: float, *, every: float, factor: float = 0.1) -> LrSchedule:
    """`initial`, multiplied by `factor` after every `every` updates (PyTorch's StepLR)."""
    check_length("step", every, "every")
    return LrSchedule({"initial": initial, "every": every, "factor": factor}, _step)


def _step(n: ScheduleNumbers, step: Tensor) -> Tensor:
    return n["initial"] * power(n["factor"], floor(step / n["every"]))


def multi_step(initial: float, milestones: Sequence[float], *, factor: float = 0.1) -> LrSchedule:
    """`initial`, multiplied by `factor` as each of the milestones is reached (PyTorch's MultiStepLR)."""
    numbers = {"initial": initial, "factor": factor, **{f"milestone{k}": m for k, m in enumerate(milestones)}}

    def value(n: ScheduleNumbers, step: Tensor) -> Tensor:
        found = n["initial"]
        for k in range(len(milestones)):
            found = where(less(step, n[f"milestone{k}"]), found, found * n["factor"])
        return found

    return LrSchedule(numbers, value)
