"""`x[index] = value` makes x stand for a new value, as NumPy's array would look after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.frontend.judge import random, run, tensor

import snell.frontend as sn
from snell.errors import OutOfRangeError, ShapeError, UnsupportedError
from snell.symbolic import Dim

X = random(4, 5, 3)
MASK = X[:, :, 0] > 0


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (1, 7.0),
        ((-1, slice(None, None, -1)), random(5, 3)),
        ((slice(None, None, 2), slice(1, 4)), np.arange(3)),
        ((slice(3, 0, -2), ..., slice(0, 2)), random(2, 1, 2)),
        ((..., -1), -0.0),
        ((None, 2, slice(4, None)), random(1, 1, 3)),
        ((slice(2, 2),), 1.0),
        ([0, -1], random(2, 5, 3)),
        (([0, -1], [1, 2]), 5),
        ((slice(None), [[0, 1], [2, 3]]), random(2, 2, 3)),
        ((slice(None), slice(None), np.array([2, 0, 2])), np.array([1.0, 2.0, 3.0])),
        (MASK, 9.0),
        (MASK, random(int(MASK.sum()), 3)),
        (X > 0, 0.5),
    ],
    ids=lambda value: str(value)[:30].replace("\n", " "),
)
def test_an_assignment_agrees_with_numpy(index: Any, value: Any) -> None:
    expected, actual = X.copy(), tensor(X)
    expected[index] = value
    actual[index] = value
    np.testing.assert_array_equal(actual.numpy(), expected)
    assert actual.dtype.name == "f32"


def test_a_mask_that_only_the_run_time_knows_is_the_condition_of_an_assignment() -> None:
    def function(x: sn.Tensor, mask: sn.Tensor) -> sn.Tensor:
        x[mask] = -1.0
        x[x > 1] = x * 2
        return x

    expected = np.where(MASK[:, :, None], -1, X)
    expected = np.where(expected > 1, expected * 2, expected)
    (result,) = run(function, [sn.TensorSpec.of(X.shape), sn.TensorSpec.of(MASK.shape, "bool")], [X, MASK])
    np.testing.assert_array_equal(result, expected)


def test_an_assignment_leaves_views_and_other_names_alone() -> None:
    x = tensor(X)
    row, same = x[0], x + 0
    x[0] = 1.0
    np.testing.assert_array_equal(row.numpy(), X[0])
    np.testing.assert_array_equal(same.numpy(), X)


def test_an_assignment_to_a_part_of_a_symbolic_axis() -> None:
    seq = Dim("seq", min=3, max=64)

    def function(x: sn.Tensor) -> sn.Tensor:
        x[1:] = 0.0
        x[0] = x[-1] + 2
        return x

    (result,) = run(function, [sn.TensorSpec.of((seq, 2))], [random(6, 2)])
    np.testing.assert_array_equal(result, [[2, 2], *[[0, 0]] * 5])


def test_what_does_not_fit_is_an_error_where_it_is_written() -> None:
    x = tensor(X)
    with pytest.raises(ShapeError):
        x[0] = random(4)
    with pytest.raises(OutOfRangeError, match="out of range"):
        x[9] = 1.0
    with pytest.raises(OutOfRangeError):
        x[[0, 4]] = 1.0
    with pytest.raises(UnsupportedError, match="whole axes"):
        x[1:, [0, 1]] = 1.0
    x[tensor(np.array([0, 7]))] = 1.0
    with pytest.raises(OutOfRangeError, match="index 7"):
        x.numpy()
