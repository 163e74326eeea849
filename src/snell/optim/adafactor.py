"""Adafactor: a second moment kept as the means of its rows and of its columns."""

from __future__ import annotations

import numpy as np

from snell.frontend import Tensor, maximum, minimum, rsqrt, sqrt
from snell.optim.checks import check_range
from snell.optim.decay import decoupled_update, with_kept
from snell.optim.hyperparameters import Hyperparameter, Numbers, raised
from snell.optim.leaf_rule import LeafRule, Slots, from_leaf_rule
from snell.optim.mask import Mask
from snell.optim.running_mean import running_mean
from snell.optim.transform import Transform
from snell.symbolic import Shape

__all__ = ["adafactor"]


def adafactor(
    learning_rate: Hyperparameter = 1e-2,
    *,
    beta2_decay: Hyperparameter = -0.8,
    eps1: Hyperparameter | None = None,
    eps2: Hyperparameter = 1e-3,
    clipping: Hyperparameter = 1.0,
    weight_decay: Hyperparameter = 0.0,
    decay_mask: Mask = True,
) -> Transform:
    """Adafactor (Shazeer and Stern, 2018) as in `torch.optim.Adafactor`, whose `d` is `clipping` here.

    Of a parameter with two axes and more, the second moment is kept as a row and a column over the last two, whose
    product estimates it; running means have the weight t^beta2_decay.  Steps are relative to the parameter: as long
    as max(eps2, rms(p))·min(learning_rate, 1/√t), with gradients over √v̂ whose rms is above `clipping` cut to it.
    `eps1` bounds estimates from below; None is the epsilon of the dtype that a parameter is updated in.
    Hyperparameters: learning_rate, beta2_decay, eps2, clipping, weight_decay, and eps1 where it is given.

    Raises ConfigError for numbers out of range.
    """
    check_range("adafactor", learning_rate=learning_rate, eps2=eps2, weight_decay=weight_decay)
    check_range("adafactor", low=None, high=0.0, beta2_decay=beta2_decay)
    check_range("adafactor", low=1.0, clipping=clipping)
    named = {
        "learning_rate": learning_rate, "beta2_decay": beta2_decay, "eps2": eps2, "clipping": clipping,
        "weight_decay": weight_decay,
    }  # fmt: skip
    if eps1 is not None:
        check_range("adafactor", eps1=eps1)
        named["eps1"] = eps1
    return from_leaf_rule("adafactor", named, LeafRule(_slots, _prepared, _update), decay_mask)


def _slots(parameter: Tensor) -> dict[str, Shape]:
    if parameter.ndim < 2:
        return {"second_moment": parameter.shape}
    *batch, rows, columns = parameter.shape
    return {"row": (*batch, rows, 1), "column": (*batch, 1, columns)}


def _prepared(n: Numbers, step: Tensor) -> Numbers:
    return {
        **with_kept(n),
        "share": raised(step, n["beta2_decay"]),
        "rate": minimum(n["learning_rate"], 1.0 / sqrt(step)),
    }


def _update(gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
    eps1 = n.get("eps1", float(np.finfo(parameter.dtype.numpy).eps))
    squares = gradient * gradient
    if "second_moment" in slots:
        estimate = running_mean(slots["second_moment"], squares, n["share"])
        following = {"second_moment": estimate}
    else:
        row = running_mean(slots["row"], squares.mean(-1, keepdims=True), n["share"])
        column = running_mean(slots["column"], squares.mean(-2, keepdims=True), n["share"])
        following = {"row": row, "column": column}
        estimate = row * column / maximum(row.mean(-2, keepdims=True), eps1)
    direction = gradient * rsqrt(maximum(estimate, eps1 * eps1))
    length = maximum(n["eps2"], _rms(parameter)) * n["rate"]
    cut = maximum(1.0, _rms(direction) / n["clipping"])
    return decoupled_update(direction * -(length / cut), parameter, n), following


def _rms(x: Tensor) -> Tensor:
    return sqrt((x * x).mean())
