"""Weights under PyTorch's names: a model's parameters and state, filled from arrays that PyTorch named and laid out.

Names are the same paths where a model is built the same way; a mapping says the others.  PyTorch keeps a linear layer's
weight as (out, in); snell as (in, out).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from snell import trees
from snell.engine.array import Array
from snell.errors import ConfigError, ShapeError

__all__ = ["from_pytorch"]

# What torch.compile and DistributedDataParallel put before every name.
_PREFIXES = ("_orig_mod.", "module.")


def from_pytorch(
    like: Any,
    arrays: Mapping[str, Any],
    *,
    names: Mapping[str, str] | None = None,
    transposed: Iterable[str] = (),
    strict: bool = True,
) -> Any:
    """A tree like `like` (params or state) with the values of `arrays`, converted to its dtypes.

    `arrays` has NumPy arrays by PyTorch's names: of `sn.io.load_safetensors`, or `{k: v.numpy() for k, v in
    module.state_dict().items()}`.  A prefix `_orig_mod.` or `module.` is taken out.  `names` maps paths of `like`, or a
    path's beginning (`"encoder"` for all below it), to PyTorch's; the longest match counts, other paths are their own names.
    `transposed` lists patterns of paths (`"*.weight"`) whose matrices are turned: a linear layer's weights.

    Raises ConfigError for a leaf without an array and, where `strict`, for arrays without a leaf; ShapeError, naming both
    sides, for an array of another shape.
    """
    given = {_plain(name): value for name, value in arrays.items()}
    patterns = tuple(transposed)
    found: list[Array] = []
    used: set[str] = set()
    for path, leaf in zip(trees.paths(like), trees.leaves(like), strict=True):
        own = ".".join(path)
        name = _named(path, names or {})
        if name not in given:
            raise ConfigError(
                f"{own}: expected an array called {name!r}, there is none; map the path with names={{{own!r}: …}}; "
                f"the arrays are {_some(given)}"
            )
        used.add(name)
        found.append(_fitted(own, name, np.asarray(given[name]), leaf, patterns))
    if strict and len(used) < len(given):
        left = [name for name in given if name not in used]
        raise ConfigError(f"no leaf takes the arrays {_some(left)}; pass strict=False to leave them out")
    return trees.unflatten(trees.flatten(like)[1], found)


def _plain(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name.replace(_PREFIXES[0], "")


def _named(path: Sequence[str], names: Mapping[str, str]) -> str:
    for length in range(len(path), 0, -1):
        mapped = names.get(".".join(path[:length]))
        if mapped is not None:
            return ".".join((*([mapped] if mapped else []), *path[length:]))
    return ".".join(path)


def _fitted(own: str, name: str, array: np.ndarray[Any, Any], leaf: Any, patterns: tuple[str, ...]) -> Array:
    wanted = np.asarray(leaf)
    is_turned = array.ndim == 2 and any(fnmatchcase(own, pattern) for pattern in patterns)
    values = array.T if is_turned else array
    if values.shape != wanted.shape:
        hint = "" if is_turned or array.T.shape != wanted.shape else f"; list {own!r} in transposed"
        turned = " transposed" if is_turned else ""
        raise ShapeError(f"{own}: expected {wanted.shape}, {name!r}{turned} has {values.shape}{hint}")
    return Array(np.array(values, wanted.dtype, order="C"))


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
