"""Stochastic gradient descent: plain, with momentum, and with Nesterov's."""

from __future__ import annotations

from snell.errors import ConfigError
from snell.frontend import Tensor, where
from snell.optim.checks import check_range
from snell.optim.decay import decayed_gradient
from snell.optim.hyperparameters import Hyperparameter, Numbers
from snell.optim.leaf_rule import LeafRule, Slots, from_leaf_rule
from snell.optim.mask import Mask
from snell.optim.running_mean import faded
from snell.optim.transform import Transform
from snell.symbolic import Shape

__all__ = ["sgd"]


def sgd(
    learning_rate: Hyperparameter = 1e-3,
    *,
    momentum: Hyperparameter = 0.0,
    dampening: Hyperparameter = 0.0,
    weight_decay: Hyperparameter = 0.0,
    nesterov: bool = False,
    decay_mask: Mask = True,
) -> Transform:
    """Stochastic gradient descent as in `torch.optim.SGD` (Sutskever et al., 2013, for Nesterov's momentum).

    With g ← g + weight_decay·p, the momentum is b ← momentum·b + (1 - dampening)·g, g in the first step; the update is
    -learning_rate·b, and Nesterov's -learning_rate·(g + momentum·b).  A momentum of 0 keeps no state, and so is no
    hyperparameter that can be changed; start with another to change it.

    Raises ConfigError for negative numbers, and for Nesterov's momentum without a momentum or with dampening.
    """
    check_range("sgd", learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay)
    if nesterov and (momentum == 0 or dampening != 0):
        raise ConfigError(
            f"sgd: nesterov needs a momentum above 0 and no dampening, received {momentum=} and {dampening=}"
        )
    named = {"learning_rate": learning_rate, "weight_decay": weight_decay}
    if momentum == 0:
        return from_leaf_rule("sgd", named, LeafRule(_no_slots, lambda n, step: n, _plain), decay_mask)
    named |= {"momentum": momentum} if nesterov else {"momentum": momentum, "dampening": dampening}
    update = _nesterov if nesterov else _with_momentum
    return from_leaf_rule("sgd", named, LeafRule(_slots, _prepared, update), decay_mask)


def _no_slots(parameter: Tensor) -> dict[str, Shape]:
    return {}


def _slots(parameter: Tensor) -> dict[str, Shape]:
    return {"momentum": parameter.shape}


def _prepared(n: Numbers, step: Tensor) -> Numbers:
    """The share of a gradient that is not dampened, which in the first step is all of it."""
    return {**n, "share": where(step == 1.0, 1.0, 1.0 - n["dampening"])} if "dampening" in n else n


def _plain(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    return decayed_gradient(gradient, parameter, n) * -n["learning_rate"], {}


def _with_momentum(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    momentum = faded(slots["momentum"], n["momentum"]) + decayed_gradient(gradient, parameter, n) * n["share"]
    return momentum * -n["learning_rate"], {"momentum": momentum}


def _nesterov(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    decayed = decayed_gradient(gradient, parameter, n)
    momentum = faded(slots["momentum"], n["momentum"]) + decayed
    return (decayed + momentum * n["momentum"]) * -n["learning_rate"], {"momentum": momentum}
