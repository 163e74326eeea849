"""scale_by_lr_schedule: updates times a number that depends on how many there were."""

from __future__ import annotations

from typing import Any

from snell import trees
from snell.optim.hyperparameters import Hyperparameter, Numbers
from snell.optim.transform import Transform
from snell.optim.tree_rule import from_tree_rule, scaled

__all__ = ["scale_by_lr_schedule"]


def scale_by_lr_schedule(factor: Hyperparameter) -> Transform:
    """Updates times the schedule's value: behind an optimizer, a factor of its learning rate (and of its decay).

    chain(adamw(1e-3), scale_by_lr_schedule(lr_schedule.cosine(1.0, steps=10_000)))

    The sign stays: an optimizer's updates are to be added already.  Hyperparameters: factor, or the schedule's numbers
    as factor.initial and so on.
    """
    return from_tree_rule("scale_by_lr_schedule", {"factor": factor}, _scaled)


def _scaled(updates: Any, params: Any, n: Numbers) -> Any:
    return trees.map(lambda update: scaled(update, n["factor"]), updates)
