"""WeightNorm: a layer whose weight is a length times a direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from snell.errors import ConfigError, GraphError
from snell.frontend import Tensor, TensorLike, as_tensor, sqrt, square
from snell.nn.child import call_child, parameters_of
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State

__all__ = ["WeightNorm"]


@dataclass(frozen=True)
class WeightNorm(Layer):
    """The layer with its leaf `name` computed as g·v / ‖v‖ at each call (Salimans and Kingma, 2016).

    Parameters, under "layer": the layer's own, with `name` replaced by `name`_v, what it was, and `name`_g, its norms over
    all axes but `axis`, which stay as extents of 1.  By default `axis` is the one of the results: the last of a matrix
    (in, out), the first of a kernel (out, in, …).  Initially the layer computes what it did.

    Raises ConfigError, when initialised, for a layer without a parameter of that name.
    """

    layer: Layer
    name: str = "weight"
    axis: int | None = None

    def parameters(self, key: Tensor) -> dict[str, Any]:
        own = parameters_of(self.children(), key).get("layer", {})
        if not isinstance(own.get(self.name), Tensor):
            raise ConfigError(
                f"WeightNorm expected a layer with a parameter {self.name!r}, {label(self.layer)} has "
                f"{', '.join(own) or 'none'}; wrap the inner layer that has it"
            )
        direction = own.pop(self.name)
        return {"layer": {**own, f"{self.name}_v": direction, f"{self.name}_g": self._norms(direction)}}

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        length, direction = f"{self.name}_g", f"{self.name}_v"
        given = params.get("layer", {})
        if not {length, direction} <= given.keys():
            raise GraphError(
                f"{label(self)} expected {length} and {direction} under 'layer', received {', '.join(given) or 'none'}; "
                "pass what the model's init made"
            )
        own = {name: leaf for name, leaf in given.items() if name not in (length, direction)}
        v = as_tensor(given[direction])
        own[self.name] = v * (given[length] / self._norms(v))
        return call_child(self.children(), "layer", x, {"layer": own}, state, train=train)

    def _norms(self, direction: TensorLike) -> Tensor:
        v = as_tensor(direction)
        kept = (-1 if v.ndim == 2 else 0) if self.axis is None else self.axis
        axes = [axis for axis in range(v.ndim) if axis != kept % v.ndim]
        return sqrt(square(v).sum(axes, keepdims=True)) if axes else sqrt(square(v))
