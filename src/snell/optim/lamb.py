"""LAMB: Adam whose step is as long as a share of the parameter."""

from __future__ import annotations

from snell.frontend import Tensor, sqrt, where
from snell.optim.adam import Betas
from snell.optim.checks import check_fractions, check_range
from snell.optim.hyperparameters import Hyperparameter, Numbers, raised
from snell.optim.leaf_rule import LeafRule, Slots, from_leaf_rule
from snell.optim.mask import Mask
from snell.optim.running_mean import mean_of_squares, running_mean
from snell.optim.transform import Transform
from snell.symbolic import Shape

__all__ = ["lamb"]


def lamb(
    learning_rate: Hyperparameter,
    *,
    betas: Betas = (0.9, 0.999),
    eps: Hyperparameter = 1e-6,
    weight_decay: Hyperparameter = 0.0,
    decay_mask: Mask = True,
) -> Transform:
    """LAMB (You et al., 2020) as in `optax.lamb`.

    With u = m̂ / (√v̂ + eps) + weight_decay·p, the update of a parameter is -learning_rate·u·‖p‖/‖u‖, without the
    quotient where a norm is 0.  Hyperparameters: learning_rate, beta1, beta2, eps, weight_decay.  Raises ConfigError
    for numbers out of range.
    """
    check_range("lamb", learning_rate=learning_rate, eps=eps, weight_decay=weight_decay)
    check_fractions("lamb", beta1=betas[0], beta2=betas[1])
    named = {
        "learning_rate": learning_rate, "beta1": betas[0], "beta2": betas[1], "eps": eps, "weight_decay": weight_decay,
    }  # fmt: skip
    return from_leaf_rule("lamb", named, LeafRule(_slots, _prepared, _update), decay_mask)


def _slots(parameter: Tensor) -> dict[str, Shape]:
    return {"first_moment": parameter.shape, "second_moment": parameter.shape}


def _prepared(n: Numbers, step: Tensor) -> Numbers:
    return {
        **n,
        "correction1": 1.0 - raised(n["beta1"], step),
        "correction2": 1.0 - raised(n["beta2"], step),
        "share1": 1.0 - n["beta1"],
        "share2": 1.0 - n["beta2"],
    }


def _update(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    first = running_mean(slots["first_moment"], gradient, n["share1"])
    second = mean_of_squares(slots["second_moment"], gradient, n["beta2"], n["share2"])
    direction = first / n["correction1"] / (sqrt(second / n["correction2"]) + n["eps"])
    if "weight_decay" in n:
        direction = direction + parameter * n["weight_decay"]
    length, size = sqrt((direction * direction).sum()), sqrt((parameter * parameter).sum())
    ratio = where((length == 0) | (size == 0), 1.0, size / length)
    return direction * (ratio * -n["learning_rate"]), {"first_moment": first, "second_moment": second}
