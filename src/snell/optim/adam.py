"""Adam, AdamW and their AMSGrad variants."""

from __future__ import annotations

from collections.abc import Callable

from snell.frontend import Tensor, maximum, sqrt
from snell.optim.checks import check_fractions, check_range
from snell.optim.decay import decayed_gradient, decoupled_update, with_kept
from snell.optim.hyperparameters import Hyperparameter, Numbers, raised
from snell.optim.leaf_rule import LeafRule, Slots, from_leaf_rule
from snell.optim.mask import Mask
from snell.optim.running_mean import mean_of_squares, running_mean
from snell.optim.transform import Transform
from snell.symbolic import Shape

__all__ = ["Betas", "adam", "adamw"]

Betas = tuple[Hyperparameter, Hyperparameter]


def adam(
    learning_rate: Hyperparameter = 1e-3,
    *,
    betas: Betas = (0.9, 0.999),
    eps: Hyperparameter = 1e-8,
    weight_decay: Hyperparameter = 0.0,
    amsgrad: bool = False,
    decay_mask: Mask = True,
) -> Transform:
    """Adam (Kingma and Ba, 2015) as in `torch.optim.Adam`: weight decay is part of the gradient.

    The update is -learning_rate·m̂ / (√v̂ + eps), with m̂ and v̂ the running means of gradients and of their squares,
    corrected for their start at 0.  `amsgrad` divides by the greatest v so far (Reddi et al., 2018).
    Hyperparameters: learning_rate, beta1, beta2, eps, weight_decay.  Raises ConfigError for numbers out of range.
    """
    rule = LeafRule(_slots(amsgrad), _prepared, _adam)
    return from_leaf_rule("adam", _named("adam", learning_rate, betas, eps, weight_decay), rule, decay_mask)


def adamw(
    learning_rate: Hyperparameter = 1e-3,
    *,
    betas: Betas = (0.9, 0.999),
    eps: Hyperparameter = 1e-8,
    weight_decay: Hyperparameter = 1e-2,
    amsgrad: bool = False,
    decay_mask: Mask = True,
) -> Transform:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019) as in `torch.optim.AdamW`.

    The update is `adam`'s without weight decay, minus learning_rate·weight_decay·p.  Hyperparameters: learning_rate,
    beta1, beta2, eps, weight_decay.  Raises ConfigError for numbers out of range.
    """
    rule = LeafRule(_slots(amsgrad), _prepared, _adamw)
    return from_leaf_rule("adamw", _named("adamw", learning_rate, betas, eps, weight_decay), rule, decay_mask)


def _named(
    optimizer: str, learning_rate: Hyperparameter, betas: Betas, eps: Hyperparameter, weight_decay: Hyperparameter
) -> dict[str, Hyperparameter]:
    check_range(optimizer, learning_rate=learning_rate, eps=eps, weight_decay=weight_decay)
    check_fractions(optimizer, beta1=betas[0], beta2=betas[1])
    return {
        "learning_rate": learning_rate, "beta1": betas[0], "beta2": betas[1], "eps": eps, "weight_decay": weight_decay,
    }  # fmt: skip


def _slots(amsgrad: bool) -> Callable[[Tensor], dict[str, Shape]]:
    names = ("first_moment", "second_moment", "greatest_second_moment")
    return lambda parameter: dict.fromkeys(names if amsgrad else names[:2], parameter.shape)


def _prepared(n: Numbers, step: Tensor) -> Numbers:
    """What depends on the step: the corrections of both means, the first within the step size."""
    return {
        **with_kept(n),
        "step_size": n["learning_rate"] / (1.0 - raised(n["beta1"], step)),
        "correction": sqrt(1.0 - raised(n["beta2"], step)),
        "share1": 1.0 - n["beta1"],
        "share2": 1.0 - n["beta2"],
    }


def _adam(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    return _step(decayed_gradient(gradient, parameter, n), slots, n)


def _adamw(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    update, following = _step(gradient, slots, n)
    return decoupled_update(update, parameter, n), following


def _step(gradient: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    first = running_mean(slots["first_moment"], gradient, n["share1"])
    second = mean_of_squares(slots["second_moment"], gradient, n["beta2"], n["share2"])
    following = {"first_moment": first, "second_moment": second}
    divisor = second
    if "greatest_second_moment" in slots:
        divisor = following["greatest_second_moment"] = maximum(slots["greatest_second_moment"], second)
    return first * -n["step_size"] / (sqrt(divisor) / n["correction"] + n["eps"]), following
