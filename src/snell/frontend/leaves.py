"""Leaves: the tensors of a tree that a transform is given, named for messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from snell import trees
from snell.errors import DTypeError, GraphError
from snell.frontend.promotion import as_tensor
from snell.frontend.tensor import Tensor

__all__ = ["Leaves", "leaf_tensor"]


@dataclass(frozen=True, slots=True)
class Leaves:
    """The tensors of a tree, each with a name for messages, and what puts them back."""

    tensors: tuple[Tensor, ...]
    labels: tuple[str, ...]
    structure: trees.Structure

    @staticmethod
    def of(tree: Any, name: str) -> Leaves:
        leaves, structure = trees.flatten(tree)
        labels = tuple(".".join((name, *path)) for path in trees.paths(tree))
        return Leaves(tuple(leaf_tensor(*pair) for pair in zip(leaves, labels, strict=True)), labels, structure)


def leaf_tensor(leaf: Any, label: str) -> Tensor:
    """Anything that has values as a tensor; GraphError or DTypeError, with the label, for what has none in memory."""
    if isinstance(leaf, str | bytes) or callable(leaf):
        raise GraphError(f"{label}: expected a tensor, an array or a number, received {type(leaf).__name__}")
    tensor = as_tensor(leaf if isinstance(leaf, Tensor | bool | int | float) else np.asarray(leaf))
    if tensor.dtype.is_packed:
        raise DTypeError(f"{label}: {tensor.dtype} has no rows in memory; cast it with .astype first")
    return tensor
