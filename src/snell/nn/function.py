"""Lambda: a function as a layer without parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from snell.nn.layer import Layer, Params, State

__all__ = ["Lambda"]


@dataclass(frozen=True)
class Lambda(Layer):
    """`function(x)`, in training and otherwise.  Containers take a plain function and make one of it."""

    function: Callable[[Any], Any]

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        return self.function(x), dict(state)
