"""Schedules made of others: a warm-up before any, and one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from snell.errors import ConfigError
from snell.frontend import Tensor, less, maximum, where
from snell.optim.lr_schedule.annealing import constant
from snell.optim.lr_schedule.schedule import LrSchedule, ScheduleNumbers, check_length

__all__ = ["joined", "warm_up"]


def warm_up(steps: float, then: LrSchedule | float, *, initial: float = 0.0) -> LrSchedule:
    """From `initial` to where `then` begins, in equal differences over `steps` updates; then `then` from its step 0."""
    check_length("warm_up", steps)
    after = then if isinstance(then, LrSchedule) else constant(then)
    return LrSchedule({"initial": initial, "steps": steps, "then": after}, _warm_up)


def _warm_up(n: ScheduleNumbers, step: Tensor) -> Tensor:
    following = n["then"](maximum(step - n["steps"], 0.0))  # during the warm-up: where `then` begins
    rising = n["initial"] + (following - n["initial"]) * (step / n["steps"])
    return where(less(step, n["steps"]), rising, following)


def joined(schedules: Sequence[LrSchedule], boundaries: Sequence[float]) -> LrSchedule:
    """One schedule after the other: the k-th ends at the k-th boundary, and each begins at its own step 0.

    Raises ConfigError unless there is one boundary less than there are schedules, in increasing order.
    """
    if len(boundaries) != len(schedules) - 1 or sorted(boundaries) != list(boundaries):
        raise ConfigError(
            f"lr_schedule.joined: expected {max(len(schedules) - 1, 0)} increasing boundaries between the "
            f"{len(schedules)} schedules, received {list(boundaries)}"
        )
    parts = {f"part{k}": part for k, part in enumerate(schedules)}
    ends = {f"boundary{k}": end for k, end in enumerate(boundaries)}

    def value(n: ScheduleNumbers, step: Tensor) -> Tensor:
        found = n["part0"](step)
        for k in range(len(boundaries)):
            start = n[f"boundary{k}"]
            found = where(less(step, start), found, n[f"part{k + 1}"](maximum(step - start, 0.0)))
        return found

    return LrSchedule({**parts, **ends}, value)
