"""Watching: a model whose layers tell an observer of every call, and compute what they compute otherwise.

    watched(model, observer)       observer(path, x, y, params) -> y

A watched layer is of a class derived from its own, made here, so it stays what it is to code that looks at it (its fields,
its indexing, isinstance).  The observer's result takes the place of the layer's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from snell.nn import Layer

__all__ = ["Observer", "watched"]

Path = tuple[str, ...]
Observer = Callable[[Path, "Call"], Any]
_Model = TypeVar("_Model")


class Call:
    """One call of a layer: its input, its result and its parameters, each a tree of tensors."""

    __slots__ = ("params", "x", "y")

    def __init__(self, x: Any, y: Any, params: Any) -> None:
        self.x, self.y, self.params = x, y, params


def watched(model: _Model, enter: Callable[[Path, Any], Any], leave: Observer, path: Path = ()) -> _Model:
    """The model, each of whose layers passes its input through `enter(path, x)` and its result through `leave(path, call)`.

    What is no layer, such as a plain function, comes back as it is.
    """
    if not isinstance(model, Layer):
        return model
    children = {name: watched(child, enter, leave, (*path, name)) for name, child in model.children().items()}
    inner = model.with_children(children)
    kind = type(model)

    def call(self: Any, x: Any, params: Any, state: Any, *, train: bool = False) -> tuple[Any, Any]:
        x = enter(path, x)
        y, after = kind.__call__(self, x, params, state, train=train)
        return leave(path, Call(x, y, params)), after

    made = object.__new__(type(kind.__name__, (kind,), {"__call__": call, "__module__": kind.__module__}))
    for field in fields(inner):  # type: ignore[arg-type]  # a layer is a dataclass
        object.__setattr__(made, field.name, getattr(inner, field.name))
    return made
