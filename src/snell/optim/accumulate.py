"""accumulate: one update for the gradients of several steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from snell import trees
from snell.errors import ConfigError
from snell.frontend import Tensor, as_tensor, astype, where
from snell.optim.hyperparameters import stored
from snell.optim.matching import entry, filled, tensors_like
from snell.optim.transform import Transform

__all__ = ["accumulate"]


def accumulate(transform: Transform, steps: int) -> Transform:
    """The transform once in `steps` calls, on the mean of their gradients; updates of 0 in between.

    Each call counts alike: with losses that are means over batches of one size, an update is that of one large batch.
    The sum is f32 or wider.  Hyperparameter: steps.  Raises ConfigError for less than one step.
    """
    if steps < 1:
        raise ConfigError(f"accumulate: expected at least 1 step for an update, received {steps}")

    def init(params: Any) -> dict[str, Any]:
        tensors_like(params, params, "params")
        return {
            "seen": np.zeros((), np.int32),
            "hyperparameters": stored({"steps": steps}),
            "sum": trees.map(lambda leaf: filled(leaf, 0.0), params),
            transform.name: transform.init(params),
        }

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        structure = trees.flatten(params)[1]
        before = trees.leaves(entry(state, "sum", "accumulate"))
        total = [
            as_tensor(old) + astype(new, as_tensor(old).dtype)
            for old, new in zip(before, tensors_like(params, gradients, "gradients"), strict=True)
        ]
        seen = as_tensor(state["seen"]) + 1
        is_due = astype(seen, "f32") >= as_tensor(state["hyperparameters"]["steps"])
        mean = trees.unflatten(structure, [one / astype(seen, one.dtype) for one in total])
        inner = entry(state, transform.name, "accumulate")
        updates, following = transform.update(mean, inner, params)
        return trees.map(lambda one: where(is_due, one, 0.0), updates), {
            **state,
            "seen": where(is_due, 0, seen),
            "sum": trees.unflatten(structure, [where(is_due, 0.0, one) for one in total]),
            transform.name: trees.map(lambda new, old: _chosen(is_due, new, old), following, inner),
        }

    return Transform("accumulate", init, update)


def _chosen(is_due: Tensor, new: Any, old: Any) -> Any:
    """The next value where an update is made; what the transform left alone stays as it is."""
    return old if new is old else where(is_due, as_tensor(new), as_tensor(old))
