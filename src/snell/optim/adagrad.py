"""Adagrad: steps divided by the root of all squares so far."""

from __future__ import annotations

from snell.frontend import Tensor, sqrt
from snell.optim.checks import check_range
from snell.optim.decay import decayed_gradient
from snell.optim.hyperparameters import Hyperparameter, Numbers
from snell.optim.leaf_rule import LeafRule, Slots, from_leaf_rule
from snell.optim.mask import Mask
from snell.optim.transform import Transform
from snell.symbolic import Shape

__all__ = ["adagrad"]


def adagrad(
    learning_rate: Hyperparameter = 1e-2,
    *,
    lr_decay: Hyperparameter = 0.0,
    weight_decay: Hyperparameter = 0.0,
    initial_accumulator: float = 0.0,
    eps: Hyperparameter = 1e-10,
    decay_mask: Mask = True,
) -> Transform:
    """Adagrad (Duchi, Hazan and Singer, 2011) as in `torch.optim.Adagrad`.

    The update is -learning_rate / (1 + (t - 1)·lr_decay) · g / (√s + eps), with s the sum of all squared gradients, which
    begins as `initial_accumulator`.  Hyperparameters: learning_rate, lr_decay, weight_decay, eps.  Raises ConfigError
    for negative numbers.
    """
    check_range("adagrad", learning_rate=learning_rate, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
    check_range("adagrad", initial_accumulator=initial_accumulator)
    named = {"learning_rate": learning_rate, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
    return from_leaf_rule("adagrad", named, LeafRule(_slots, _prepared, _update, initial_accumulator), decay_mask)


def _slots(parameter: Tensor) -> dict[str, Shape]:
    return {"sum_of_squares": parameter.shape}


def _prepared(n: Numbers, step: Tensor) -> Numbers:
    return {**n, "step_size": n["learning_rate"] / (1.0 + (step - 1.0) * n["lr_decay"])}


def _update(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    decayed = decayed_gradient(gradient, parameter, n)
    total = slots["sum_of_squares"] + decayed * decayed
    return decayed * -n["step_size"] / (sqrt(total) + n["eps"]), {"sum_of_squares": total}
