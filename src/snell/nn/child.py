"""Children: how a layer that holds others makes their parameters and state, and calls them.

Parameters and state of a layer with children are dicts by child's name.  A child that has none does not occur in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from snell.errors import SnellError
from snell.frontend import Tensor
from snell.nn.keys import named_key

if TYPE_CHECKING:
    from snell.nn.layer import Layer

__all__ = ["call_child", "parameters_of", "state_of"]


def parameters_of(children: Mapping[str, Layer], key: Tensor) -> dict[str, Any]:
    """The children's parameters by name, each made with the key folded with its name."""
    return _by_name(children, key, lambda layer, own: layer.parameters(own))


def state_of(children: Mapping[str, Layer], key: Tensor) -> dict[str, Any]:
    """The children's initial state by name, each made with the key folded with its name."""
    return _by_name(children, key, lambda layer, own: layer.initial_state(own))


def call_child(
    children: Mapping[str, Layer],
    name: str,
    x: Any,
    params: Mapping[str, Any],
    state: Mapping[str, Any],
    *,
    train: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """The child's result, and the parent's state with the child's part after the call.

    `params` and `state` are the parent's.  An error of the child's carries a note with its name.
    """
    try:
        y, after = children[name](x, params.get(name, {}), state.get(name, {}), train=train)
    except SnellError as error:
        error.add_note(f"in layer {name!r}")
        raise
    return y, {**state, name: after} if after else dict(state)


def _by_name(
    children: Mapping[str, Layer], key: Tensor, hook: Callable[[Layer, Tensor], dict[str, Any]]
) -> dict[str, Any]:
    found = {name: hook(layer, named_key(key, name)) for name, layer in children.items()}
    return {name: tree for name, tree in found.items() if tree}
