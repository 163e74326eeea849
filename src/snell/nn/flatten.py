"""Axes as one axis, as between convolutions and a linear layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from snell.errors import ShapeError
from snell.frontend import Tensor, TensorLike, as_tensor, flatten
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State
from snell.symbolic import show_shape

__all__ = ["Flatten"]


@final
@dataclass(frozen=True)
class Flatten(Layer):
    """Axes start…end (both included) as one: by default (n, …) → (n, elements).  No parameters, no state."""

    start: int = 1
    end: int = -1

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        tensor = as_tensor(x)
        first, last = (axis + tensor.ndim if axis < 0 else axis for axis in (self.start, self.end))
        if not 0 <= first <= last < tensor.ndim:
            raise ShapeError(
                f"{label(self)} expected an input with the axes {self.start} to {self.end}, in this order; received "
                f"{show_shape(tensor.shape)}"
            )
        return flatten(tensor, first, last), dict(state)
