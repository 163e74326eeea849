"""Transform: a step from gradients to updates, with the state that it carries.

    state = transform.init(params)
    updates, state = transform.update(gradients, state, params)
    params = apply_updates(params, updates)

An optimizer is a transform whose updates are ready to be added.  Both functions work on arrays and on tensors under
tracing; the state is a nested dict of arrays, so it compiles, is donated and is saved like parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from snell import trees
from snell.frontend import as_tensor, astype

__all__ = ["Transform", "apply_updates"]


@dataclass(frozen=True, slots=True)
class Transform:
    """Two functions and the name under which the state appears in a chain's.

    `init(params) -> state`; `update(gradients, state, params) -> (updates, state)`, where gradients and updates are
    trees like params.
    """

    name: str
    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


def apply_updates(params: Any, updates: Any) -> Any:
    """params + updates, leaf by leaf, in the parameters' dtypes.

    Updates of 16-bit parameters are f32, and so is the addition.  Raises GraphError for trees of two structures.
    """
    return trees.map(_added, params, updates)


def _added(parameter: Any, update: Any) -> Any:
    before = as_tensor(parameter)
    return astype(before + as_tensor(update), before.dtype)
