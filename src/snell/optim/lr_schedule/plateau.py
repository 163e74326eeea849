"""reduce_on_plateau: a learning rate that falls when a metric no longer improves.

Unlike an `LrSchedule` it depends on what is measured, so it is told of each measurement, and keeps a state:

    plateau = lr_schedule.reduce_on_plateau(patience=5)
    watch = plateau.init(1e-3)
    watch = plateau.update(watch, validation_loss)
    state = optim.with_hyperparameters(state, learning_rate=watch["value"])
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snell import trees
from snell.errors import ConfigError
from snell.frontend import Tensor, TensorLike, as_tensor, astype, less, logical_and, maximum, where

__all__ = ["Plateau", "reduce_on_plateau"]


@dataclass(frozen=True, slots=True, eq=False)
class Plateau:
    """What `reduce_on_plateau` gives: the rule, with its numbers; the state is a dict of scalars."""

    lower_is_better: bool
    relative: bool
    numbers: Mapping[str, float] = field(default_factory=dict)

    def init(self, value: float) -> dict[str, Any]:
        """The state before the first measurement; "value" is the learning rate."""
        worst = math.inf if self.lower_is_better else -math.inf
        return {
            "value": np.asarray(value, np.float32),
            "best": np.asarray(worst, np.float32),
            "bad": np.zeros((), np.int32),
            "cooldown_left": np.zeros((), np.int32),
            "hyperparameters": {name: np.asarray(number, np.float32) for name, number in self.numbers.items()},
        }

    def update(self, state: Mapping[str, Any], metric: TensorLike) -> dict[str, Any]:
        """The state after a measurement: arrays for an array or a number, tensors under tracing."""
        following = self._following(state, astype(as_tensor(metric), "f32"))
        if any(isinstance(leaf, Tensor) for leaf in (metric, *trees.leaves(dict(state)))):
            return following
        return trees.map(np.asarray, following)

    def _following(self, state: Mapping[str, Any], metric: Tensor) -> dict[str, Any]:
        n = {name: astype(as_tensor(number), "f32") for name, number in state["hyperparameters"].items()}
        best, value = as_tensor(state["best"]), as_tensor(state["value"])
        is_better = self._is_better(metric, best, n["threshold"])
        cooling = less(0, as_tensor(state["cooldown_left"]))
        bad = where(logical_and(~is_better, ~cooling), as_tensor(state["bad"]) + 1, 0)
        is_due = less(n["patience"], astype(bad, "f32"))
        lower = maximum(value * n["factor"], n["minimum"])
        falls = logical_and(is_due, less(n["eps"], value - lower))
        left = as_tensor(state["cooldown_left"])
        return {
            **state,
            "value": where(falls, lower, value),
            "best": where(is_better, metric, best),
            "bad": where(is_due, 0, bad),
            "cooldown_left": where(is_due, astype(n["cooldown"], "i32"), where(cooling, left - 1, left)),
        }

    def _is_better(self, metric: Tensor, best: Tensor, threshold: Tensor) -> Tensor:
        if self.lower_is_better:
            return less(metric, best * (1.0 - threshold) if self.relative else best - threshold)
        return less(best * (1.0 + threshold) if self.relative else best + threshold, metric)


def reduce_on_plateau(
    *,
    factor: float = 0.1,
    patience: int = 10,
    threshold: float = 1e-4,
    relative: bool = True,
    lower_is_better: bool = True,
    cooldown: int = 0,
    minimum: float = 0.0,
    eps: float = 1e-8,
) -> Plateau:
    """The learning rate times `factor` after more than `patience` measurements in a row without a new best one.

    As PyTorch's ReduceLROnPlateau: a best is new where it is better by the `threshold`, a part of the old best or
    (relative=False) an amount; after a fall, `cooldown` measurements do not count; the rate does not fall below
    `minimum`, nor by less than `eps`.  Raises ConfigError for a factor of 1 or more.
    """
    if factor >= 1:
        raise ConfigError(f"reduce_on_plateau: factor is below 1, or the rate would not fall; received {factor}")
    numbers = {
        "factor": factor, "patience": patience, "threshold": threshold, "cooldown": cooldown, "minimum": minimum,
        "eps": eps,
    }  # fmt: skip
    return Plateau(lower_is_better, relative, numbers)
