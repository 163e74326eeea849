"""Lion: the sign of a momentum."""

from __future__ import annotations

from snell.frontend import Tensor, sign
from snell.optim.adam import Betas
from snell.optim.checks import check_fractions, check_range
from snell.optim.hyperparameters import Hyperparameter, Numbers
from snell.optim.leaf_rule import LeafRule, Slots, from_leaf_rule
from snell.optim.mask import Mask
from snell.optim.transform import Transform
from snell.symbolic import Shape

__all__ = ["lion"]


def lion(
    learning_rate: Hyperparameter,
    *,
    betas: Betas = (0.9, 0.99),
    weight_decay: Hyperparameter = 1e-3,
    decay_mask: Mask = True,
) -> Transform:
    """Lion (Chen et al., 2023) as in `optax.lion`.

    The update is -learning_rate·(sign(beta1·m + (1 - beta1)·g) + weight_decay·p), and then m ← beta2·m + (1 - beta2)·g.
    Its steps are as long as the learning rate, which is usually a tenth of Adam's.  Hyperparameters: learning_rate,
    beta1, beta2, weight_decay.  Raises ConfigError for numbers out of range.
    """
    check_range("lion", learning_rate=learning_rate, weight_decay=weight_decay)
    check_fractions("lion", beta1=betas[0], beta2=betas[1])
    named = {
        "learning_rate": learning_rate, "beta1": betas[0], "beta2": betas[1], "weight_decay": weight_decay,
    }  # fmt: skip
    return from_leaf_rule("lion", named, LeafRule(_slots, _prepared, _update), decay_mask)


def _slots(parameter: Tensor) -> dict[str, Shape]:
    return {"momentum": parameter.shape}


def _prepared(n: Numbers, step: Tensor) -> Numbers:
    return {**n, "share1": 1.0 - n["beta1"], "share2": 1.0 - n["beta2"]}


def _update(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    direction = sign(slots["momentum"] * n["beta1"] + gradient * n["share1"])
    momentum = slots["momentum"] * n["beta2"] + gradient * n["share2"]
    if "weight_decay" in n:
        direction = direction + parameter * n["weight_decay"]
    return direction * -n["learning_rate"], {"momentum": momentum}
