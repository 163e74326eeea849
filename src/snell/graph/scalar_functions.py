"""Named groups of primitives: the facts the e-graph may use and the reference value of each.

A group is one opaque unary operation to the rules; its expansion into primitives is in `graph.expansions`.  `evaluate`
works on float64 and is the meaning against which expansions and generated code are judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from snell.errors import UnsupportedError
from snell.graph.numeric import Array

__all__ = ["SCALAR_FUNCTIONS", "ScalarFunctionFacts", "scalar_function"]


@dataclass(frozen=True, slots=True)
class ScalarFunctionFacts:
    """Closed range of the values, direction (+1 rises, -1 falls, 0 neither) and parity (+1 even, -1 odd, 0 neither)."""

    evaluate: Callable[[Array], Array]
    lower: float = -math.inf
    upper: float = math.inf
    monotone: int = 0
    parity: int = 0


def _sigmoid(x: Array) -> Array:
    return np.reciprocal(1.0 + np.exp(-x))


def _rsqrt(x: Array) -> Array:
    return np.reciprocal(np.sqrt(x))


def _identity(x: Array) -> Array:
    return x


_erf_object = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(_erf_object(x), dtype=np.float64)


_INF, _HALF_PI = math.inf, math.pi / 2

SCALAR_FUNCTIONS: Mapping[str, ScalarFunctionFacts] = MappingProxyType(
    {
        "exp": ScalarFunctionFacts(np.exp, 0.0, _INF, 1),
        "exp2": ScalarFunctionFacts(np.exp2, 0.0, _INF, 1),
        "expm1": ScalarFunctionFacts(np.expm1, -1.0, _INF, 1),
        "log": ScalarFunctionFacts(np.log, monotone=1),
        "log2": ScalarFunctionFacts(np.log2, monotone=1),
        "log1p": ScalarFunctionFacts(np.log1p, monotone=1),
        "sin": ScalarFunctionFacts(np.sin, -1.0, 1.0, parity=-1),
        "cos": ScalarFunctionFacts(np.cos, -1.0, 1.0, parity=1),
        "tan": ScalarFunctionFacts(np.tan, parity=-1),
        "asin": ScalarFunctionFacts(np.arcsin, -_HALF_PI, _HALF_PI, 1, -1),
        "acos": ScalarFunctionFacts(np.arccos, 0.0, math.pi, -1),
        "atan": ScalarFunctionFacts(np.arctan, -_HALF_PI, _HALF_PI, 1, -1),
        "sinh": ScalarFunctionFacts(np.sinh, monotone=1, parity=-1),
        "cosh": ScalarFunctionFacts(np.cosh, 1.0, _INF, parity=1),
        "tanh": ScalarFunctionFacts(np.tanh, -1.0, 1.0, 1, -1),
        "erf": ScalarFunctionFacts(_erf, -1.0, 1.0, 1, -1),
        "sigmoid": ScalarFunctionFacts(_sigmoid, 0.0, 1.0, 1),
        "rsqrt": ScalarFunctionFacts(_rsqrt, 0.0, _INF, -1),
        "barrier": ScalarFunctionFacts(_identity, monotone=1, parity=-1),
    }
)


def scalar_function(name: str) -> ScalarFunctionFacts:
    """The facts of a named group; UnsupportedError lists the names there are."""
    found = SCALAR_FUNCTIONS.get(name)
    if found is None:
        known = ", ".join(sorted(SCALAR_FUNCTIONS))
        raise UnsupportedError(f"unknown scalar function {name!r}; expected one of {known}")
    return found
