"""Hyperparameters: the numbers of an optimizer, which live in its state.

A transform's state has them under "hyperparameters", f64 scalars by name; where a number is an `LrSchedule`, the
schedule's own numbers are a dict there.  They are inputs of the compiled step, so changing one compiles nothing.

Arithmetic on them is f64: in f32 1 - 0.999 would be wrong in the fifth digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from snell import trees
from snell.errors import ConfigError
from snell.frontend import Tensor, as_tensor, astype, exp2, log2
from snell.optim.lr_schedule.schedule import LrSchedule

__all__ = [
    "Hyperparameter",
    "Numbers",
    "as_number",
    "evaluated",
    "hyperparameters",
    "raised",
    "stored",
    "with_hyperparameters",
]

Hyperparameter = float | LrSchedule
Numbers = Mapping[str, Tensor]

_KEY = "hyperparameters"


def stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a state that holds these hyperparameters.  ConfigError for what is no number."""
    return {name: _stored(name, value) for name, value in values.items()}


def _stored(name: str, value: Any) -> Any:
    return stored(value.numbers) if isinstance(value, LrSchedule) else as_number(name, value)


def as_number(name: str, value: Any) -> np.ndarray[Any, Any]:
    """The value as an f64 scalar; ConfigError, with the name, for what is no number."""
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "iuf" or math.isnan(array):
        raise ConfigError(f"{name}: expected a number or an lr_schedule, received {value!r}")
    return array.astype(np.float64)


def evaluated(values: Mapping[str, Hyperparameter], state: Mapping[str, Any], step: Tensor) -> dict[str, Tensor]:
    """The hyperparameters as f64 scalars at `step` (f64, the number of updates made before this one)."""
    return {
        name: value.at(state[name], step) if isinstance(value, LrSchedule) else astype(as_tensor(state[name]), "f64")
        for name, value in values.items()
    }


def raised(base: Tensor, exponent: Tensor) -> Tensor:
    """base^exponent of positive exponents, or of positive bases."""
    return exp2(exponent * log2(base))


def hyperparameters(state: Any) -> dict[str, Any]:
    """The hyperparameters in an optimizer's state by qualified name, `adamw.learning_rate`, as they are stored."""
    return {".".join(shown): leaf for shown, _, leaf in _found(state)}


def with_hyperparameters(state: Any, /, **values: Any) -> Any:
    """The state with other hyperparameters: `with_hyperparameters(state, learning_rate=1e-4)`.

    A name may be qualified by what is before it in `hyperparameters(state)`, and has to be where two transforms of a
    chain have one of that name: `**{"adamw.learning_rate": 1e-4}`.  Values are numbers, or scalar tensors under
    tracing.  A compiled step accepts the new state without being compiled again.

    Raises ConfigError for a name that is unknown (listing those known) or ambiguous, and for a value that is no number.
    """
    found = list(_found(state))
    chosen = {_chosen(name, [shown for shown, _, _ in found]): (name, value) for name, value in values.items()}
    by_path = {path: chosen[shown] for shown, path, _ in found if shown in chosen}
    leaves, structure = trees.flatten(state)
    replaced = [
        _value(*by_path[path]) if path in by_path else leaf
        for path, leaf in zip(trees.paths(state), leaves, strict=True)
    ]
    return trees.unflatten(structure, replaced)


def _value(name: str, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return as_number(name, value)
    if value.shape != ():
        raise ConfigError(f"{name}: expected one number, received a tensor of shape {value.shape}")
    return astype(value, "f64")


def _found(state: Any) -> Iterator[tuple[trees.Path, trees.Path, Any]]:
    """Qualified name, path and value of each hyperparameter."""
    for path, leaf in zip(trees.paths(state), trees.leaves(state), strict=True):
        if _KEY in path:
            yield tuple(key for key in path if key != _KEY), path, leaf


def _chosen(name: str, known: list[trees.Path]) -> trees.Path:
    """The one qualified name that ends in `name`."""
    wanted = tuple(name.split("."))
    exact = [path for path in known if path == wanted]
    ending = exact or [path for path in known if path[-len(wanted) :] == wanted]
    if len(ending) == 1:
        return ending[0]
    if ending:
        several = ", ".join(".".join(path) for path in ending)
        raise ConfigError(
            f'{name!r} is a hyperparameter of several transforms; write one of {several} as **{{"…": value}}'
        )
    names = ", ".join(".".join(path) for path in known) or "none"
    raise ConfigError(f"{name!r} is no hyperparameter of this optimizer; its hyperparameters are {names}")
