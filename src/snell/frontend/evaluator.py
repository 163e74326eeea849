"""Evaluator: what a tensor asks for its value.

The frontend runs no programs; a tensor made from nothing that is asked for its value has the reference interpreter
compute it, so that exploring needs no compiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from snell.graph.interpret import interpret
from snell.graph.node import Graph

__all__ = ["Array", "Evaluator", "Interpreter"]

Array = np.ndarray[Any, np.dtype[Any]]


class Evaluator(Protocol):
    """Runs a graph whose inputs all have arrays."""

    def evaluate(self, graph: Graph, arrays: Mapping[str, Array]) -> Sequence[Array]:
        """The outputs of `graph`, in order and in their dtypes; `arrays` holds each input by name.

        A failed check of the graph raises OutOfRangeError (an IndexError).
        """
        ...


class Interpreter:
    """The reference interpreter as an Evaluator."""

    def evaluate(self, graph: Graph, arrays: Mapping[str, Array]) -> Sequence[Array]:
        """The outputs, in order and in their dtypes."""
        return interpret(graph, arrays, {})
