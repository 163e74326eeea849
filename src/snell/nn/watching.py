"""Watching: a model that tells of every layer's call, for summaries and for finding where a number went wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from snell.frontend import Tensor
from snell.nn.layer import Layer, Params, State
from snell.trees import Path

__all__ = ["Call", "watched"]


@dataclass(frozen=True)
class Call:
    """One call of a layer: its path from the model (empty for the model itself), and what it was given and gave."""

    path: Path
    layer: Layer
    x: Any
    params: Params
    state: State
    y: Any


def watched(model: Layer, observer: Callable[[Call], Any], path: Path = ()) -> Layer:
    """The model with the same parameters and state, which hands each call of a layer in it to `observer`, the inner ones
    first, and goes on with the result that the observer returns in the place of y.
    """
    children = {name: watched(child, observer, (*path, name)) for name, child in model.children().items()}
    return _Watched(model.with_children(children), model, observer, path)


@dataclass(frozen=True)
class _Watched(Layer):
    """A layer around the watched children of `original`."""

    layer: Layer
    original: Layer
    observer: Callable[[Call], Any] = field(repr=False)
    path: Path

    def children(self) -> Mapping[str, Layer]:
        return self.original.children()

    def __getattr__(self, name: str) -> Any:
        """What a parent asks its child for besides the protocol, such as a cell's size."""
        if name.startswith("__") or name == "original":
            raise AttributeError(name)
        return getattr(self.original, name)

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        y, after = self.layer(x, params, state, train=train)
        return self.observer(Call(self.path, self.original, x, params, state, y)), after

    def parameters(self, key: Tensor) -> dict[str, Any]:
        return self.original.parameters(key)

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return self.original.initial_state(key)
