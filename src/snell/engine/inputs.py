"""Inputs: how the leaves of a call's arguments become the arrays that an executable reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell.engine.array import Array
from snell.errors import DTypeError, OutOfRangeError, SnellError

__all__ = ["Inputs", "shape_and_dtype"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """For each input of an executable the leaf it takes, its dtype, and whether it may be overwritten.

    `sizes` has the dims that only leaves show whose elements nobody reads: name, leaf and axis.
    """

    order: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]
    donated: tuple[bool, ...]
    sizes: tuple[tuple[str, int, int], ...] = ()

    def run(self, executable: Callable[..., Sequence[np.ndarray[Any, Any]]], leaves: Sequence[Any]) -> list[Array]:
        """The executable's results; where it fails before it wrote, donated Arrays stay readable."""
        given: list[tuple[Array, np.ndarray[Any, Any]]] = []
        sizes = {name: shape_and_dtype(leaves[leaf])[0][axis] for name, leaf, axis in self.sizes}
        try:
            arrays: list[np.ndarray[Any, Any]] = []
            for place, dtype, is_donated in zip(self.order, self.dtypes, self.donated, strict=True):
                leaf = leaves[place]
                arrays.append(_as_input(leaf, dtype, is_donated))
                if is_donated and isinstance(leaf, Array):
                    given.append((leaf, arrays[-1]))
            return [Array(output) for output in executable(*arrays, sizes=sizes)]
        except SnellError as error:
            if not (isinstance(error, OutOfRangeError) and error.overwrote_donated):
                for array, values in given:
                    array.give_back(values)
            raise


def shape_and_dtype(leaf: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Those of an array, an Array, or what NumPy makes of anything else."""
    if isinstance(leaf, Array):
        leaf = leaf.numpy()
    if not isinstance(leaf, np.ndarray):
        leaf = np.asarray(leaf)
    return leaf.shape, leaf.dtype


def _as_input(leaf: Any, dtype: np.dtype[Any], donated: bool) -> np.ndarray[Any, Any]:
    """An argument as the array that a program reads; a donated Array gives its memory away."""
    if isinstance(leaf, Array):
        return leaf.donate() if donated else leaf.numpy()
    if isinstance(leaf, bool | int | float):
        return _number(leaf, dtype)
    return np.asarray(leaf)


def _number(value: float, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value, dtype)
    except OverflowError:
        raise DTypeError(
            f"expected a number that fits {dtype}, received {value}; pass a float, or a NumPy array"
        ) from None
