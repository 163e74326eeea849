"""Evaluator: what a tensor asks for its value.  The frontend runs nothing; an engine supplies this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from snell.graph.node import Graph

__all__ = ["Array", "Evaluator"]

Array = np.ndarray[Any, np.dtype[Any]]


class Evaluator(Protocol):
    """Runs a graph whose inputs all have arrays."""

    def evaluate(self, graph: Graph, arrays: Mapping[str, Array]) -> Sequence[Array]:
        """The outputs of `graph`, in order and in their dtypes; `arrays` holds each input by name.

        A failed check of the graph raises OutOfRangeError (an IndexError).
        """
        ...
