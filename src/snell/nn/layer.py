"""Layer: what a network computes, apart from the numbers that it computes with.

    params, state = model.init(sn.random.key(0))
    y, state = model(x, params, state, train=True)

A layer is a frozen, hashable dataclass (tuples, not lists, in its fields) and holds no arrays.  `params` are what training
changes and `state` what a layer carries from call to call: nested dicts by name, a leaf's name being PyTorch's.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self, final

import numpy as np

from snell.engine.defaults import compile
from snell.errors import GraphError
from snell.frontend import Tensor, TensorLike
from snell.nn.child import parameters_of, state_of
from snell.nn.printing import model_text

__all__ = ["Layer", "Params", "State"]

Params = Mapping[str, Any]
State = Mapping[str, Any]


class Layer(abc.ABC):
    """The protocol of all layers; subclasses are final and decorated with `@dataclass(frozen=True)`."""

    @abc.abstractmethod
    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        """The result and the state after it.

        `x` is a tensor, or a tuple or tree of them for a layer of several inputs.  With `train=False` nothing is drawn and
        the state stays what it is.
        """

    def parameters(self, key: Tensor) -> dict[str, Any]:
        """Initial parameters: by default those of the children, so none for a layer without any.

        `key` is u32 (2,) and may be traced.
        """
        return parameters_of(self.children(), key)

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        """The state before the first call: by default that of the children, so none for a layer without any."""
        return state_of(self.children(), key)

    def children(self) -> Mapping[str, Layer]:
        """The layers inside this one by name, each name a part of paths: by default the fields that are layers."""
        if not is_dataclass(self):
            raise GraphError(
                f"a layer is a frozen dataclass; decorate {type(self).__name__} with @dataclass(frozen=True)"
            )
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Layer)}

    def with_children(self, children: Mapping[str, Layer]) -> Self:
        """The same layer around other children of the same names: what overrides `children` overrides this too."""
        return replace(self, **children) if children else self  # type: ignore[type-var]  # a dataclass, see children

    @final
    def init(self, key: TensorLike) -> tuple[dict[str, Any], dict[str, Any]]:
        """(params, state), made by one compiled program: leaves are Arrays.

        `key` is `sn.random.key(seed)`.  With the key of a function under tracing the leaves are tensors of that function.
        """

        def initial(key: Tensor) -> tuple[dict[str, Any], dict[str, Any]]:
            return self.parameters(key), self.initial_state(key)

        if isinstance(key, Tensor) and not key.trace.floating:
            return initial(key)
        return compile(initial)(np.asarray(key))

    def __str__(self) -> str:
        """A tree of the layers, with counts and shapes of their parameters."""
        return model_text(self)
