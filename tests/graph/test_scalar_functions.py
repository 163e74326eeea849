"""Every named scalar function: its facts hold, and its expansion into primitives keeps the meaning."""

from __future__ import annotations

import numpy as np
import pytest
from tests.graph.programs import Sketch

from snell.dtypes import f64
from snell.errors import UnsupportedError
from snell.graph.expansions import expand
from snell.graph.interpret import interpret
from snell.graph.node import Graph, full_view
from snell.graph.primitives import ScalarFunction
from snell.graph.scalar_functions import SCALAR_FUNCTIONS, scalar_function

DOMAINS = {
    "log": (1e-6, 50), "log2": (1e-6, 50), "log1p": (-0.999, 50), "asin": (-1, 1), "acos": (-1, 1), "rsqrt": (1e-6, 50),
    "tan": (-1.5, 1.5), "exp": (-300, 300), "expm1": (-300, 300), "sinh": (-700, 700), "cosh": (-700, 700),
}  # fmt: skip


def points(name: str) -> np.ndarray:
    low, high = DOMAINS.get(name, (-30, 30))
    tiny = [v for v in (-1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.24999, 0.25, 0.5, 1.0, 3.0, 6.0) if low <= v <= high]
    return np.unique(np.concatenate([np.linspace(low, high, 2001), tiny]))


@pytest.mark.parametrize("name", sorted(SCALAR_FUNCTIONS))
def test_the_expansion_keeps_the_meaning(name: str) -> None:
    sketch = Sketch()
    x = points(name)
    operand = sketch.input("x", x.shape, f64)
    expanded = full_view(expand(name, sketch.builder, operand))
    (found,) = interpret(Graph((("y", expanded),)), {"x": x})
    tolerance = 1e-12 if name in ("exp", "expm1", "sinh", "cosh", "exp2", "tan") else 2e-14
    np.testing.assert_allclose(found, SCALAR_FUNCTIONS[name].evaluate(x), rtol=tolerance, atol=2e-15)


@pytest.mark.parametrize("name", sorted(SCALAR_FUNCTIONS))
def test_range_direction_and_parity_hold(name: str) -> None:
    facts = SCALAR_FUNCTIONS[name]
    x = points(name)
    y = facts.evaluate(x)
    assert y.min() >= facts.lower
    assert y.max() <= facts.upper
    if facts.monotone:
        assert (np.diff(y) * facts.monotone >= 0).all()
    if facts.parity:
        np.testing.assert_allclose(facts.evaluate(-x), facts.parity * y, rtol=1e-14)


@pytest.mark.parametrize(("name", "at", "value"), [
    ("exp", -np.inf, 0.0), ("exp", np.inf, np.inf), ("tanh", np.inf, 1.0), ("tanh", -np.inf, -1.0),
    ("erf", np.inf, 1.0),
    ("sigmoid", -np.inf, 0.0), ("expm1", -np.inf, -1.0), ("log", 0.0, -np.inf), ("atan", -np.inf, -np.pi / 2),
    ("tanh", np.nan, np.nan), ("erf", np.nan, np.nan), ("atan", np.nan, np.nan), ("log1p", -1.0, -np.inf),
    ("acos", -1.0, np.pi), ("asin", 1.0, np.pi / 2), ("cosh", -np.inf, np.inf), ("rsqrt", 0.0, np.inf),
])  # fmt: skip
def test_the_expansion_is_right_at_the_ends(name: str, at: float, value: float) -> None:
    sketch = Sketch()
    expanded = full_view(expand(name, sketch.builder, sketch.input("x", (1,), f64)))
    (found,) = interpret(Graph((("y", expanded),)), {"x": np.array([at])})
    np.testing.assert_allclose(found, [value], rtol=1e-15)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedError, match=r"unknown scalar function 'gelu'; expected one of .*erf"):
        scalar_function("gelu")


def test_a_function_node_is_evaluated_by_name() -> None:
    sketch = Sketch()
    node = sketch.apply(ScalarFunction("erf"), sketch.input("x", (1,), f64))
    np.testing.assert_allclose(interpret(Graph((("y", node),)), {"x": np.array([0.5])})[0], [0.5204998778130465])
