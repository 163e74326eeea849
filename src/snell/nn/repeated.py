"""Repeated: many layers of one kind, one after the other, as one body that is compiled once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from snell import trees
from snell.errors import SnellError
from snell.frontend import Tensor, random, scan
from snell.nn.checking import expect_positive
from snell.nn.keys import named_key
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State

__all__ = ["Repeated"]


@dataclass(frozen=True)
class Repeated(Layer):
    """`count` copies of a layer, each with parameters and state of its own, run by `sn.scan`.

    Parameters and state, under "layer": the layer's, stacked along a first axis of extent `count`.  The gradient keeps
    what passes between copies and computes the rest of each again.  Raises ShapeError for a layer whose result is not like
    its input, tree, shapes and dtypes.
    """

    layer: Layer
    count: int

    def __post_init__(self) -> None:
        expect_positive(self, count=self.count)

    def parameters(self, key: Tensor) -> dict[str, Any]:
        return self._stacked(self.layer.parameters, key)

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return self._stacked(self.layer.initial_state, key)

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        changes = False

        def step(x: Any, row: tuple[dict[str, Any], dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
            nonlocal changes
            y, after = self.layer(x, *row, train=train)
            changes = [id(leaf) for leaf in trees.leaves(after)] != [id(leaf) for leaf in trees.leaves(row[1])]
            return y, after if changes else {}

        rows = params.get("layer", {}), state.get("layer", {})
        try:
            y, after = scan(step, x, rows, length=self.count)
        except SnellError as error:
            error.add_note(f"in a copy of layer 'layer' of {label(self)}, whose result is to be like its input")
            raise
        return y, {**state, "layer": after} if changes else dict(state)

    def _stacked(self, hook: Callable[[Tensor], dict[str, Any]], key: Tensor) -> dict[str, Any]:
        keys = random.bits(named_key(key, "layer"), (self.count, 2))
        _, found = scan(lambda none, own: (none, hook(own)), (), keys)
        return {"layer": found} if trees.leaves(found) else {}
