"""Objectives: what a step minimises, given as a loss of predictions or as a function of the whole model.

A loss is called `loss(prediction, target)` and its batch is (input, target).  An objective is called
`objective(model, params, state, batch)` and returns (loss, state, metrics); where it has parameters named `key` or
`train`, it is given a key of its own for each step, and whether the model is being trained or evaluated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from snell import trees
from snell.dtypes import f32
from snell.errors import ConfigError, GraphError, ShapeError
from snell.frontend import Tensor, as_tensor, astype
from snell.symbolic import show_shape

__all__ = ["Objective"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Objective:
    """A user's function with what it takes."""

    function: Callable[..., Any]
    is_loss: bool
    takes: frozenset[str]

    @staticmethod
    def of(function: Callable[..., Any]) -> Objective:
        """Tell a loss from an objective by the parameters that have no default: two or four.  ConfigError for others."""
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            raise ConfigError(f"expected a function, received {function!r}") from None
        required = [p.name for p in parameters if p.kind in _POSITIONAL and p.default is p.empty]
        named = frozenset(p.name for p in parameters if p.name in ("key", "train"))
        required = [name for name in required if len(required) <= 4 or name not in named]
        if len(required) not in (2, 4):
            raise ConfigError(
                "expected a loss (prediction, target) or an objective (model, params, state, batch), "
                f"received {getattr(function, '__name__', function)!r} with the parameters ({', '.join(required)})"
            )
        is_loss = len(required) == 2
        return Objective(function, is_loss, frozenset() if is_loss else named)

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(
        self, model: Any, params: Any, state: Any, batch: Any, *, key: Tensor, train: bool
    ) -> tuple[Tensor, Any, Any]:
        """(loss, state, metrics): the loss an f32 scalar at least."""
        if self.is_loss:
            result = self._of_prediction(model, params, state, batch, train)
        else:
            extras: Mapping[str, Any] = {"key": key, "train": train}
            result = self.function(model, params, state, batch, **{name: extras[name] for name in self.takes})
        if not isinstance(result, tuple) or len(result) != 3:
            raise GraphError(
                f"objective {self.name} must return (loss, state, metrics), received {type(result).__name__}; "
                "return state as it came and {} where there is nothing to say"
            )
        loss, after, metrics = result
        return self._scalar(as_tensor(loss)), _like(after, state, self.name), trees.map(as_tensor, metrics)

    def _of_prediction(self, model: Any, params: Any, state: Any, batch: Any, train: bool) -> tuple[Any, Any, Any]:
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise GraphError(
                f"with a loss (prediction, target) the batch is (input, target), received {type(batch).__name__}; "
                "for anything else write an objective (model, params, state, batch) -> (loss, state, metrics)"
            )
        prediction, after = model(batch[0], params, state, train=train)
        wide = trees.map(_widened, prediction)
        return self.function(wide, batch[1]), after, {}

    def _scalar(self, loss: Tensor) -> Tensor:
        if loss.shape != () or not loss.dtype.is_float:
            raise ShapeError(
                f"{self.name} must give one float number, received {loss.dtype}{show_shape(loss.shape)}; "
                "reduce it, for instance with .mean()"
            )
        return _widened(loss)


def _widened(value: Any) -> Tensor:
    """16-bit floats as f32: losses subtract large numbers."""
    tensor = as_tensor(value)
    return astype(tensor, f32) if tensor.dtype.is_float and tensor.dtype.bits < f32.bits else tensor


def _like(after: Any, before: Any, name: str) -> Any:
    """The state after the call in the dtypes it had, so that one program serves every step."""
    leaves, structure = trees.flatten(after)
    old, wanted = trees.flatten(before)
    if structure != wanted:
        received = [".".join(path) for path in trees.paths(after)]
        expected = [".".join(path) for path in trees.paths(before)]
        raise GraphError(
            f"{name}: the state after a step must be a tree like the one before it; expected the leaves {expected}, "
            f"received {received}"
        )
    return trees.unflatten(
        structure, [astype(as_tensor(new), as_tensor(was).dtype) for new, was in zip(leaves, old, strict=True)]
    )
