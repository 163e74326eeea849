"""lr_schedule: a hyperparameter that depends on how many updates were made.

    optim.adamw(lr_schedule.warm_up(500, lr_schedule.cosine(1e-3, steps=10_000)))

A schedule is computed in the compiled step from the count of updates in the optimizer's state.  Its own numbers (a peak,
a length) are hyperparameters in that state too.  It is given the number of updates made before, so the first update
sees step 0; all arithmetic is f64.  `schedule(step)` is the value at a step, for a plot or a message.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snell.errors import ConfigError
from snell.frontend import Tensor, TensorLike, as_tensor, astype, clip, cos, floor, less, maximum, minimum, power, where

__all__ = ["LrSchedule", "constant", "cosine", "joined", "linear", "multi_step", "one_cycle", "step", "warm_up"]

_Numbers = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class LrSchedule:
    """Named numbers (or schedules, for one made of others), and the value that they give at a step.

    `value(numbers, step)` is given f64 scalars, and for a schedule among the numbers a function of the step.
    """

    numbers: Mapping[str, float | LrSchedule]
    value: Callable[[_Numbers, Tensor], Tensor]

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
        """The value (f32) at a step, with the numbers that the schedule was made with."""
        return astype(self.at(_plain(self), astype(as_tensor(step), "f64")), "f32")


def _plain(schedule: LrSchedule) -> dict[str, Any]:
    return {name: _plain(n) if isinstance(n, LrSchedule) else n for name, n in schedule.numbers.items()}


def constant(value: float) -> LrSchedule:
    """`value` at every step."""
    return LrSchedule({"value": value}, lambda numbers, step: numbers["value"])


def linear(initial: float, final: float, *, steps: float) -> LrSchedule:
    """From `initial` to `final` in equal differences over `steps` updates, then `final`."""
    _check_length("linear", steps)
    return LrSchedule({"initial": initial, "final": final, "steps": steps}, _linear)


def _linear(n: _Numbers, step: Tensor) -> Tensor:
    return n["initial"] + (n["final"] - n["initial"]) * minimum(step / n["steps"], 1.0)


def cosine(initial: float, *, steps: float, final: float = 0.0) -> LrSchedule:
    """From `initial` to `final` along half a cosine over `steps` updates, then `final` (Loshchilov and Hutter, 2017)."""
    _check_length("cosine", steps)
    return LrSchedule({"initial": initial, "final": final, "steps": steps}, _cosine)


def _cosine(n: _Numbers, step: Tensor) -> Tensor:
    return _annealed(n["initial"], n["final"], minimum(step / n["steps"], 1.0))


def _annealed(start: Tensor, end: Tensor, part: Tensor) -> Tensor:
    """Half a cosine from start (part 0) to end (part 1)."""
    return end + (start - end) * (cos(part * math.pi) + 1.0) * 0.5


def step(initial: float, *, every: float, factor: float = 0.1) -> LrSchedule:
    """`initial`, multiplied by `factor` after every `every` updates (PyTorch's StepLR)."""
    _check_length("step", every, "every")
    numbers = {"initial": initial, "every": every, "factor": factor}
    return LrSchedule(numbers, lambda n, step: n["initial"] * power(n["factor"], floor(step / n["every"])))


def multi_step(initial: float, milestones: Sequence[float], *, factor: float = 0.1) -> LrSchedule:
    """`initial`, multiplied by `factor` once each of the milestones is reached (PyTorch's MultiStepLR)."""
    numbers = {"initial": initial, "factor": factor, **{f"milestone{k}": m for k, m in enumerate(milestones)}}

    def value(n: _Numbers, step: Tensor) -> Tensor:
        found = n["initial"]
        for k in range(len(milestones)):
            found = where(less(step, n[f"milestone{k}"]), found, found * n["factor"])
        return found

    return LrSchedule(numbers, value)


def one_cycle(
    peak: float,
    *,
    steps: float,
    warm_up: float = 0.3,
    initial_divisor: float = 25.0,
    final_divisor: float = 1e4,
) -> LrSchedule:
    """Up to `peak` for the part `warm_up` of `steps` updates, then down (Smith and Topin, 2019; PyTorch's OneCycleLR).

    Both ways along half a cosine: from peak / initial_divisor, to peak / (initial_divisor · final_divisor).
    """
    _check_length("one_cycle", steps)
    if not 0 < warm_up < 1:
        raise ConfigError(f"one_cycle: warm_up is the part of the steps that rises, between 0 and 1; received {warm_up}")
    numbers = {
        "peak": peak, "steps": steps, "warm_up": warm_up, "initial_divisor": initial_divisor,
        "final_divisor": final_divisor,
    }  # fmt: skip
    return LrSchedule(numbers, _one_cycle)


def _one_cycle(n: _Numbers, step: Tensor) -> Tensor:
    low = n["peak"] / n["initial_divisor"]
    top, last = n["warm_up"] * n["steps"] - 1.0, n["steps"] - 1.0
    rising = _annealed(low, n["peak"], clip(step / top, 0.0, 1.0))
    falling = _annealed(n["peak"], low / n["final_divisor"], clip((step - top) / (last - top), 0.0, 1.0))
    return where(less(top, step), falling, rising)


def warm_up(steps: float, then: LrSchedule | float, *, initial: float = 0.0) -> LrSchedule:
    """From `initial` to where `then` begins, in equal differences over `steps` updates; then `then` from its step 0."""
    _check_length("warm_up", steps)
    after = then if isinstance(then, LrSchedule) else constant(then)

    def value(n: _Numbers, step: Tensor) -> Tensor:
        start = n["then"](maximum(step - n["steps"], 0.0))  # before the end of the warm-up: where `then` begins
        return where(less(step, n["steps"]), n["initial"] + (start - n["initial"]) * (step / n["steps"]), start)

    return LrSchedule({"initial": initial, "steps": steps, "then": after}, value)


def joined(schedules: Sequence[LrSchedule], boundaries: Sequence[float]) -> LrSchedule:
    """One schedule after the other: the k-th ends at the k-th boundary, and each begins at its own step 0.

    Raises ConfigError unless there is one boundary less than there are schedules, in increasing order.
    """
    if len(boundaries) != len(schedules) - 1 or sorted(boundaries) != list(boundaries):
        raise ConfigError(
            f"joined expected {max(len(schedules) - 1, 0)} increasing boundaries between {len(schedules)} schedules, "
            f"received {list(boundaries)}"
        )
    numbers = {f"part{k}": part for k, part in enumerate(schedules)}
    ends = {f"boundary{k}": end for k, end in enumerate(boundaries)}

    def value(n: _Numbers, step: Tensor) -> Tensor:
        found = n["part0"](step)
        for k in range(len(boundaries)):
            start = n[f"boundary{k}"]
            found = where(less(step, start), found, n[f"part{k + 1}"](maximum(step - start, 0.0)))
        return found

    return LrSchedule({**numbers, **ends}, value)


def _check_length(what: str, steps: float, name: str = "steps") -> None:
    if not steps > 0:
        raise ConfigError(f"lr_schedule.{what}: {name} is a number of updates above 0, received {steps}")
