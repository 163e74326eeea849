"""Stochastic gradient descent, plain, with momentum, and with Nesterov's."""

from __future__ import annotations

from snell.errors import ConfigError
from snell.frontend import Tensor, where
from snell.optim.hyperparameters import Hyperparameter, Numbers
from snell.optim.leaf_rule import LeafRule, Slots, from_leaf_rule
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
) -> Transform:
    """Stochastic gradient descent as in `torch.optim.SGD` (Sutskever et al., 2013, for Nesterov's momentum).

    With g ← g + weight_decay·p, the momentum is b ← momentum·b + (1 - dampening)·g, g in the first step, and the update
    -learning_rate·b, with Nesterov's -learning_rate·(g + momentum·b).  A momentum of 0 keeps no state, so it is no
    hyperparameter that can be changed later; start with another to change it.

    Raises ConfigError for Nesterov's momentum without a momentum or with dampening.
    """
    if nesterov and (momentum == 0 or dampening != 0):
        raise ConfigError(
            f"sgd: nesterov needs a momentum above 0 and no dampening, received momentum={momentum}, dampening={dampening}"
        )
    named = {"learning_rate": learning_rate, "weight_decay": weight_decay}
    if momentum == 0:
        return from_leaf_rule("sgd", named, LeafRule(lambda p: {}, lambda numbers, step: numbers, _plain))
    named |= {"momentum": momentum} if nesterov else {"momentum": momentum, "dampening": dampening}
    update = _nesterov if nesterov else _with_momentum
    return from_leaf_rule("sgd", named, LeafRule(_slots, _prepared, update))


def _slots(parameter: Tensor) -> dict[str, Shape]:
    return {"momentum": parameter.shape}


def _prepared(numbers: Numbers, step: Tensor) -> Numbers:
    if "dampening" not in numbers:
        return numbers
    return {**numbers, "share": where(step == 1.0, 1.0, 1.0 - numbers["dampening"])}


def _plain(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    decayed = gradient + parameter * n["weight_decay"]
    return decayed * -n["learning_rate"], {}


def _with_momentum(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    decayed = gradient + parameter * n["weight_decay"]
    momentum = slots["momentum"] * n["momentum"] + decayed * n["share"]
    return momentum * -n["learning_rate"], {"momentum": momentum}


def _nesterov(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    decayed = gradient + parameter * n["weight_decay"]
    momentum = slots["momentum"] * n["momentum"] + decayed
    return (decayed + momentum * n["momentum"]) * -n["learning_rate"], {"momentum": momentum}
