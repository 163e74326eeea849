"""Watching: a model that tells of every layer's call, for summaries and for finding where a number went wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from snell.nn.layer import Layer, Params, State
from snell.trees import Path

__all__ = ["Call", "watched"]

_Model = TypeVar("_Model", bound=Layer)


@dataclass(frozen=True)
class Call:
    """One call of a layer: its path from the model (empty for the model itself), and what it was given and gave."""

    path: Path
    layer: Layer
    x: Any
    params: Params
    state: State
    y: Any


def watched(
    model: _Model,
    observer: Callable[[Call], Any],
    path: Path = (),
    *,
    before: Callable[[Path, Any], Any] = lambda path, x: x,
) -> _Model:
    """The model with the same parameters and state, which hands each call of a layer in it to `observer`, the inner ones
    first, and goes on with the result that the observer returns in the place of y.

    `before(path, x)` is called when a layer is entered, the outer ones first; the layer is given what it returns.
    """
    children = {
        name: watched(child, observer, (*path, name), before=before) for name, child in model.children().items()
    }
    inner = model.with_children(children)
    kind = type(model)

    def call(self: Any, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        x = before(path, x)
        y, after = kind.__call__(self, x, params, state, train=train)
        return observer(Call(path, model, x, params, state, y)), after

    # Of a class derived from the layer's own, so that it stays what it is to code that indexes it or asks for its fields.
    derived = type(kind.__name__, (kind,), {"__call__": call, "__module__": kind.__module__})
    made = object.__new__(derived)
    for field in fields(inner):  # type: ignore[arg-type]  # a layer is a dataclass
        object.__setattr__(made, field.name, getattr(inner, field.name))
    return made
