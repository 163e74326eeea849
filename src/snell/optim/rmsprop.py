"""RMSprop: steps divided by the root of a running mean of squares."""

from __future__ import annotations

from collections.abc import Callable

from snell.frontend import Tensor, maximum, sqrt
from snell.optim.checks import check_fractions, check_range
from snell.optim.decay import decayed_gradient
from snell.optim.hyperparameters import Hyperparameter, Numbers
from snell.optim.leaf_rule import LeafRule, Slots, from_leaf_rule
from snell.optim.mask import Mask
from snell.optim.running_mean import faded, mean_of_squares, running_mean
from snell.optim.transform import Transform
from snell.symbolic import Shape

__all__ = ["rmsprop"]


def rmsprop(
    learning_rate: Hyperparameter = 1e-2,
    *,
    alpha: Hyperparameter = 0.99,
    eps: Hyperparameter = 1e-8,
    weight_decay: Hyperparameter = 0.0,
    momentum: Hyperparameter = 0.0,
    centered: bool = False,
    decay_mask: Mask = True,
) -> Transform:
    """RMSprop (Hinton, 2012; centered: Graves, 2013) as in `torch.optim.RMSprop`.

    With v ← alpha·v + (1 - alpha)·g², the direction is g / (√v + eps), with `centered` g / (√(v - ḡ²) + eps) and ḡ the
    running mean of gradients (a difference that rounding makes negative counts as 0).  With a momentum,
    b ← momentum·b + direction takes its place; a momentum of 0 keeps no state and cannot be changed later.
    Hyperparameters: learning_rate, alpha, eps, weight_decay, and momentum.  Raises ConfigError for numbers out of range.
    """
    check_range("rmsprop", learning_rate=learning_rate, eps=eps, weight_decay=weight_decay, momentum=momentum)
    check_fractions("rmsprop", alpha=alpha)
    named = {"learning_rate": learning_rate, "alpha": alpha, "eps": eps, "weight_decay": weight_decay}
    slots = ["mean_of_squares"] + ["mean"] * centered
    if momentum != 0:
        named["momentum"] = momentum
        slots.append("momentum")
    return from_leaf_rule("rmsprop", named, LeafRule(_slots(slots), _prepared, _update), decay_mask)


def _slots(names: list[str]) -> Callable[[Tensor], dict[str, Shape]]:
    return lambda parameter: dict.fromkeys(names, parameter.shape)


def _prepared(n: Numbers, step: Tensor) -> Numbers:
    return {**n, "share": 1.0 - n["alpha"]}


def _update(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    decayed = decayed_gradient(gradient, parameter, n)
    squares = mean_of_squares(slots["mean_of_squares"], decayed, n["alpha"], n["share"])
    following, spread = {"mean_of_squares": squares}, squares
    if "mean" in slots:
        mean = following["mean"] = running_mean(slots["mean"], decayed, n["share"])
        spread = maximum(squares - mean * mean, 0.0)
    divisor = sqrt(spread) + n["eps"]
    if "momentum" not in slots:
        return decayed * -n["learning_rate"] / divisor, following
    momentum = following["momentum"] = faded(slots["momentum"], n["momentum"]) + decayed / divisor
    return momentum * -n["learning_rate"], following
