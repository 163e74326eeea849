"""ema: a running mean of the parameters, to evaluate with."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from snell import trees
from snell.errors import GraphError
from snell.frontend import Tensor, as_tensor, astype
from snell.optim.checks import check_fractions
from snell.optim.hyperparameters import Hyperparameter, Numbers, evaluated, stored
from snell.optim.matching import entry, tensors_like, wide
from snell.optim.transform import Transform, apply_updates

__all__ = ["averaged_params", "ema"]


def ema(decay: Hyperparameter = 0.999) -> Transform:
    """Keeps average ← decay·average + (1 - decay)·parameters, from the first parameters on; changes no update.

    It belongs last in a chain, where updates are those that will be added (Polyak and Juditsky, 1992; the running mean
    of PyTorch's `get_ema_multi_avg_fn`).  `averaged_params(state)` gives the mean.  Averages of 16-bit parameters are
    f32.  Hyperparameter: decay.  Raises ConfigError for a decay outside of 0 ≤ decay < 1.
    """
    check_fractions("ema", decay=decay)
    hyperparameters = {"decay": decay}

    def init(params: Any) -> dict[str, Any]:
        tensors_like(params, params, "params")
        return {
            "step": np.zeros((), np.int32),
            "hyperparameters": stored(hyperparameters),
            "average": trees.map(_copied, params),
        }

    def update(updates: Any, state: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        made = as_tensor(entry(state, "step", "ema"))
        numbers = evaluated(hyperparameters, state["hyperparameters"], astype(made, "f64"))
        following = apply_updates(params, updates)
        average = trees.map(lambda old, new: _towards(old, new, numbers), entry(state, "average", "ema"), following)
        return updates, {**state, "step": made + 1, "average": average}

    return Transform("ema", init, update)


def _copied(parameter: Any) -> Any:
    """The parameter in memory of its own, as a step may be given both to overwrite."""
    tensor = wide(as_tensor(parameter if isinstance(parameter, Tensor) else np.asarray(parameter)))
    return tensor if isinstance(parameter, Tensor) else np.array(parameter, tensor.dtype.numpy)


def _towards(average: Any, parameter: Tensor, n: Numbers) -> Tensor:
    old = as_tensor(average)
    return old + (astype(parameter, old.dtype) - old) * astype(1.0 - n["decay"], old.dtype)


def averaged_params(state: Any) -> Any:
    """The running mean that an `ema` keeps somewhere in this state; GraphError where there is none."""
    found = _average(state)
    if found is None:
        raise GraphError("the optimizer's state has no running mean of parameters; put ema() last in its chain")
    return found


def _average(state: Any) -> Any:
    if not isinstance(state, dict):
        return None
    parts = cast("dict[str, Any]", state)
    if {"average", "hyperparameters", "step"} <= parts.keys():
        return parts["average"]
    return next((found for part in parts.values() if (found := _average(part)) is not None), None)
