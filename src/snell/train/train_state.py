"""TrainState: everything that training changes, with the model and the optimizer that say how.

    ts = sn.train.TrainState.create(model, params, state, sn.optim.adamw(1e-3))
    result, ts = sn.train.step(ts, batch, sn.losses.cross_entropy)

A state is a tree: its arrays are the leaves.  A step donates it, so only the state that the step returns may be used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from snell import trees
from snell.config import SearchBudget
from snell.engine.array import Array
from snell.errors import DTypeError, GraphError
from snell.frontend import DTypeLike
from snell.optim import Transform
from snell.train.dtype_policy import checked_tree
from snell.train.loss_scale import LossScaling
from snell.train.options import Options
from snell.train.programs import Programs
from snell.train.step_program import Recipe

__all__ = ["VARIABLES", "TrainState"]


@dataclass(frozen=True, slots=True, eq=False)
class TrainState:
    """Make it with `TrainState.create`.

    `step` counts the batches that were trained on, i64 (), `skipped` those among them that changed nothing because the
    loss or a gradient was not finite; `key` is u32 (2,), from which each step draws one of its own for the objective.
    """

    params: Any
    state: Any
    optimizer_state: Any
    step: Array
    skipped: Array
    key: Array
    loss_scale: dict[str, Any]
    recipe: Recipe
    programs: Programs = field(default_factory=Programs, repr=False)

    @staticmethod
    def create(
        model: Any,
        params: Any,
        state: Any,
        optimizer: Transform,
        *,
        key: Any = None,
        compute_dtype: DTypeLike | None = None,
        loss_scaling: LossScaling | float | str | None = "auto",
        accumulate: int = 1,
        dtype_policy: str = "warn",
        batch_axis: str = "auto",
        precision: str = "default",
        search: SearchBudget | None = None,
    ) -> TrainState:
        """The state before the first step.  The arrays are copied, so `params` and `state` stay the caller's.

        - `key`: for objectives that draw (default: that of seed 0).
        - `compute_dtype`: what forward and backward compute in, such as "bf16"; parameters, gradients and updates stay f32.
        - `loss_scaling`: "auto" is dynamic for f16 and none else; a number is a fixed scale, a `LossScaling` its own rule.
        - `accumulate`: a batch is worked through in that many equal parts, for less memory; gradients are averaged.
        - `dtype_policy`: what is done where float64 leaks in: "none", "warn", "convert" or "error", naming the path.
        - `batch_axis`: "auto" compiles the first batch size for itself and, once another is seen, one program for every
          size; "symbolic" the latter from the start; "fixed" each size for itself.
        - `precision` and `search`: as for `sn.compile`.

        Raises ConfigError for an option that means nothing, DTypeError for parameters that are not floats.
        """
        options = Options.of(compute_dtype, loss_scaling, accumulate, dtype_policy, batch_axis, precision, search)
        params = checked_tree(params, "params", options.dtype_policy)
        _check_floats(params)
        copied = _copied(params)
        scaling = options.loss_scaling
        return TrainState(
            params=copied,
            state=_copied(state),
            optimizer_state=_copied(optimizer.init(copied)),
            step=Array(np.zeros((), np.int64)),
            skipped=Array(np.zeros((), np.int64)),
            key=Array(_key(key)),
            loss_scale={} if scaling is None else _copied(scaling.state()),
            recipe=Recipe(model, optimizer, options),
        )

    @property
    def model(self) -> Any:
        """What was given to `create`."""
        return self.recipe.model

    @property
    def optimizer(self) -> Transform:
        """What was given to `create`."""
        return self.recipe.optimizer

    def variables(self) -> dict[str, Any]:
        """The trees that a step changes, by name."""
        return {name: getattr(self, name) for name in VARIABLES}

    def with_variables(self, variables: dict[str, Any]) -> TrainState:
        """The state with these trees in place of its own, and the same programs."""
        return replace(self, **variables)

    def copy(self) -> TrainState:
        """The same state in memory of its own, which no step of this one donates."""
        return self.with_variables(_copied(self.variables()))


_STATIC = ("recipe", "programs")
VARIABLES = tuple(one.name for one in fields(TrainState) if one.name not in _STATIC)
trees.register(TrainState, static=_STATIC)


def _copied(tree: Any) -> Any:
    return trees.map(lambda leaf: Array(np.array(leaf, order="C")), tree)


def _key(key: Any) -> np.ndarray[Any, Any]:
    words = np.zeros(2, np.uint32) if key is None else np.array(key)
    if words.dtype != np.uint32 or words.shape != (2,):
        raise DTypeError(f"key: expected u32 (2,), as sn.random.key(seed) gives, received {words.dtype}{words.shape}")
    return words


def _check_floats(params: Any) -> None:
    for path, leaf in zip(trees.paths(params), trees.leaves(params), strict=True):
        label = ".".join(("params", *path))
        if not hasattr(leaf, "dtype"):
            raise GraphError(f"{label}: expected an array, received {type(leaf).__name__}")
        if np.dtype(leaf.dtype).kind in "iub":
            raise DTypeError(f"{label}: expected floats, received {leaf.dtype}; keep what is not trained in state")
