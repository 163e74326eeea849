"""LrSchedule: a hyperparameter that depends on how many updates were made.

A schedule is computed in the compiled step from the count of updates in the optimizer's state.  Its own numbers (a peak,
a length) are hyperparameters in that state too.  It is given the number of updates made before, so the first update
sees step 0; all arithmetic is f64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from snell.errors import ConfigError
from snell.frontend import Tensor, TensorLike, as_tensor, astype

__all__ = ["LrSchedule", "ScheduleNumbers", "check_length"]

# What a schedule computes with: f64 scalars, and functions of the step for the schedules it is made of.
ScheduleNumbers = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class LrSchedule:
    """Named numbers (or schedules, for one made of others), and the value that they give at a step."""

    numbers: Mapping[str, float | LrSchedule]
    value: Callable[[ScheduleNumbers, Tensor], Tensor]

    def at(self, state: Mapping[str, Any], step: Tensor) -> Tensor:
        """The value (f64) at an f64 step, with the numbers that an optimizer's state holds."""
        found: dict[str, Any] = {}
        for name, number in self.numbers.items():
            if isinstance(number, LrSchedule):
                found[name] = functools.partial(number.at, state[name])
            else:
                found[name] = astype(as_tensor(state[name]), "f64")
        return self.value(found, step)

    def __call__(self, step: TensorLike) -> Tensor:
        """The value (f32) at a step, with the numbers that the schedule was made with: for a plot, or a message."""
        return astype(self.at(_own_numbers(self), astype(as_tensor(step), "f64")), "f32")


def _own_numbers(schedule: LrSchedule) -> dict[str, Any]:
    return {name: _own_numbers(n) if isinstance(n, LrSchedule) else n for name, n in schedule.numbers.items()}


def check_length(what: str, steps: float, name: str = "steps") -> None:
    """ConfigError unless there is something to walk."""
    if not steps > 0:
        raise ConfigError(f"lr_schedule.{what}: {name} is a number of updates above 0, received {steps}")
