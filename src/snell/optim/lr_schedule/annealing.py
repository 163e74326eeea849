"""Schedules that move smoothly: constant, linear, cosine, one cycle."""

from __future__ import annotations

import math

from snell.errors import ConfigError
from snell.frontend import Tensor, clip, cos, less, minimum, where
from snell.optim.lr_schedule.schedule import LrSchedule, ScheduleNumbers, check_length

__all__ = ["constant", "cosine", "linear", "one_cycle"]


def constant(value: float) -> LrSchedule:
    """`value` at every step."""
    return LrSchedule({"value": value}, lambda numbers, step: numbers["value"])


def linear(initial: float, final: float, *, steps: float) -> LrSchedule:
    """From `initial` to `final` in equal differences over `steps` updates, then `final`."""
    check_length("linear", steps)
    return LrSchedule({"initial": initial, "final": final, "steps": steps}, _linear)


def _linear(n: ScheduleNumbers, step: Tensor) -> Tensor:
    return n["initial"] + (n["final"] - n["initial"]) * minimum(step / n["steps"], 1.0)


def cosine(initial: float, *, steps: float, final: float = 0.0) -> LrSchedule:
    """From `initial` to `final` along half a cosine over `steps` updates, then `final` (Loshchilov and Hutter, 2017)."""
    check_length("cosine", steps)
    return LrSchedule({"initial": initial, "final": final, "steps": steps}, _cosine)


def _cosine(n: ScheduleNumbers, step: Tensor) -> Tensor:
    return _annealed(n["initial"], n["final"], minimum(step / n["steps"], 1.0))


def _annealed(start: Tensor, end: Tensor, part: Tensor) -> Tensor:
    """Half a cosine from start (part 0) to end (part 1)."""
    return end + (start - end) * (cos(part * math.pi) + 1.0) * 0.5


def one_cycle(
    peak: float, *, steps: float, warm_up: float = 0.3, initial_divisor: float = 25.0, final_divisor: float = 1e4
) -> LrSchedule:
    """Up to `peak` for the part `warm_up` of `steps` updates, then down (Smith and Topin, 2019; PyTorch's OneCycleLR).

    Both ways along half a cosine, from peak / initial_divisor and to peak / (initial_divisor · final_divisor), which
    is reached in the last of the updates.
    """
    check_length("one_cycle", steps)
    if not 0 < warm_up < 1:
        raise ConfigError(
            f"one_cycle: warm_up is the part of the steps that rises, between 0 and 1; received {warm_up}"
        )
    numbers = {
        "peak": peak, "steps": steps, "warm_up": warm_up, "initial_divisor": initial_divisor,
        "final_divisor": final_divisor,
    }  # fmt: skip
    return LrSchedule(numbers, _one_cycle)


def _one_cycle(n: ScheduleNumbers, step: Tensor) -> Tensor:
    low = n["peak"] / n["initial_divisor"]
    top, last = n["warm_up"] * n["steps"] - 1.0, n["steps"] - 1.0
    rising = _annealed(low, n["peak"], clip(step / top, 0.0, 1.0))
    falling = _annealed(n["peak"], low / n["final_divisor"], clip((step - top) / (last - top), 0.0, 1.0))
    return where(less(top, step), falling, rising)
