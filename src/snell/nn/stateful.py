"""Stateful: a model with its parameters and state in one object, for those who would rather not thread them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snell import trees
from snell.engine.defaults import compile
from snell.engine.function import DimSpec
from snell.errors import GraphError
from snell.frontend import Tensor
from snell.nn.layer import Layer

__all__ = ["Stateful"]


class Stateful:
    """`Stateful(model, *model.init(key))` is called on arrays alone: `y = net(x, train=False)`.

    Calls are compiled, and each puts the state after it in `state`; `params` and `state` may be set.  `dims` names symbolic
    axes of x as in `sn.compile`, `("batch", None)`, so that one program serves every size.  Not for use inside a function
    under tracing: pass the model, its parameters and its state there (GraphError).
    """

    def __init__(
        self, model: Layer, params: Mapping[str, Any], state: Mapping[str, Any], *, dims: DimSpec | None = None
    ) -> None:
        self.model = model
        self.params = params
        self.state = state

        def call(x: Any, params: Any, state: Any, train: bool) -> Any:
            return model(x, params, state, train=train)

        self._call = compile(call, static=("train",), dims=None if dims is None else {"x": dims})

    def __call__(self, x: Any, *, train: bool = False) -> Any:
        if any(isinstance(leaf, Tensor) and not leaf.trace.floating for leaf in trees.leaves(x)):
            raise GraphError(
                "a Stateful was called inside a function under tracing, where its state would be that function's; "
                "call its model with params and state there"
            )
        y, self.state = self._call(x, self.params, self.state, train)
        return y

    def __repr__(self) -> str:
        return f"Stateful({self.model!r})"

    def __str__(self) -> str:
        return f"Stateful\n{self.model}"
