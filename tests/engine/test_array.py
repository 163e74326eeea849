"""An Array is handled like a NumPy array: operators, NumPy's functions, iteration, formatting."""

from __future__ import annotations

import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import snell as sn
from snell.errors import DonatedError, ShapeError

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(name="array")
def fixture_array() -> Any:
    return sn.compile(lambda x: x + 0)(VALUES)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "ge"])
@pytest.mark.parametrize("other", [2, np.float32(1.5), VALUES + 1])
def test_operators_work_from_either_side(name: str, other: Any, array: Any) -> None:
    apply: Callable[[Any, Any], Any] = getattr(operator, name)
    np.testing.assert_array_equal(apply(array, other), apply(VALUES, other))
    np.testing.assert_array_equal(apply(other, array + 1), apply(other, VALUES + 1))


def test_what_one_does_with_an_array_works(array: Any) -> None:
    np.testing.assert_array_equal(array @ VALUES.T, VALUES @ VALUES.T)
    np.testing.assert_array_equal(np.tanh(array), np.tanh(VALUES))
    np.testing.assert_array_equal(np.concatenate([array, array]), np.concatenate([VALUES, VALUES]))
    assert np.sum(array) == 15
    assert [row.tolist() for row in array] == VALUES.tolist()
    one = sn.compile(lambda x: sn.sum(x))(VALUES)
    assert (float(one), int(one), bool(one), f"{one:.2f}") == (15.0, 15, True, "15.00")
    with pytest.raises(ValueError, match="ambiguous"):
        bool(array)


def test_tensors_take_arrays_on_either_side(array: Any) -> None:
    left, right = sn.compile(lambda x: (x * array, array - x))(VALUES)
    np.testing.assert_array_equal(left, VALUES * VALUES)
    np.testing.assert_array_equal(right, VALUES - VALUES)


def test_a_donated_array_is_not_computed_with(array: Any) -> None:
    sn.compile(lambda cache: sn.update_rows(cache, cache[0:1] * 2, 0, axis=0), donate=("cache",))(array)
    with pytest.raises(DonatedError):
        array + 1


def test_the_command_line_is_a_module_too() -> None:
    done = subprocess.run([sys.executable, "-m", "snell", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: snell" in done.stdout


def test_what_is_shown_in_a_prompt_is_short_and_says_what_it_is() -> None:
    function = sn.compile(lambda x, scale=2: x * scale)
    function(VALUES)
    assert repr(function) == "<CompiledFunction <lambda>(x, scale=2); 1 compiled>"
    graph = sn.Graph()
    graph.tensor((2, 3))
    assert repr(graph) == "<Graph of 1 inputs and 0 outputs>"
    assert f"{sn.sum(sn.array([1.5])):.2f}" == "1.50"
    assert "TYPE_CHECKING" not in dir(sn)


def test_an_input_has_no_negative_extent() -> None:
    with pytest.raises(ShapeError, match="at least 0"):
        sn.Graph().tensor((-1, 3))


def test_an_array_keeps_its_dtype_wherever_it_is_used() -> None:
    wide = sn.compile(lambda x: x * 2)(np.arange(3.0))
    assert sn.exp(wide).dtype.name == "f64"
    assert sn.array(wide).dtype.name == "f64"
    closed_over = sn.compile(lambda x: x * wide)(np.ones(3))
    assert closed_over.dtype == np.float64
    assert sn.compile(lambda x: x + wide)(np.ones(3, np.float32)).dtype == np.float64
    assert sn.array([1.0, 2.0]).dtype.name == "f32"
