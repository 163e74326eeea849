"""Eager evaluation: a tensor asked for its value is computed by the reference interpreter, so exploring needs no compiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from snell.graph.interpret import interpret
from snell.graph.node import Graph

__all__ = ["EagerEvaluator"]


class EagerEvaluator:
    """Evaluates graphs whose inputs all have arrays."""

    def evaluate(self, graph: Graph, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Sequence[np.ndarray[Any, Any]]:
        """The outputs, in order and in their dtypes."""
        return interpret(graph, arrays, {})
