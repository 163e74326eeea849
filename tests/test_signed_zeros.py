"""Movement keeps -0, in the interpreter and in generated code, though it is spelled with sums: 0 + (-0) is 0.

NumPy and PyTorch are the judges; a sign of a zero is compared as bits are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import snell as sn
from snell.codegen.literals import literal
from snell.dtypes import f64

Array = np.ndarray[Any, np.dtype[Any]]

X = np.array([[-0.0, 0.0, 1.5], [np.nan, -0.0, -np.inf], [0.0, -2.0, -0.0], [-0.0, -0.0, -0.0]], np.float32)
Y = np.array([[0.0, -0.0], [-0.0, -0.0], [3.0, 0.0], [-0.0, 0.0]], np.float32)
PLACES = np.array([3, 0, -1, 1], np.int64)
COLUMNS = np.array([[0], [1], [2], [0]], np.int64)
HELD = np.random.default_rng(0).random((4, 3)) < 0.5

MOVEMENTS: dict[str, tuple[Callable[[Any, Any], Any], Array]] = {
    "concatenate": (lambda x, y: sn.concatenate([x, y, x], 1), np.concatenate([X, Y, X], 1)),
    "concatenate rows": (lambda x, y: sn.concatenate([x, x[:0], x]), np.concatenate([X, X])),
    "stack": (lambda x, y: sn.stack([x, x], -1), np.stack([X, X], -1)),
    "pad with a number": (lambda x, y: sn.pad(x, [(1, 2), (0, 1)], 7.0), np.pad(X, [(1, 2), (0, 1)], constant_values=7)),
    "pad with zeros": (lambda x, y: sn.pad(x, [(1, 2), (0, 1)]), np.pad(X, [(1, 2), (0, 1)])),
    "pad with -0": (lambda x, y: sn.pad(x, [(1, 0)], -0.0), np.pad(X, [(0, 0), (1, 0)], constant_values=-0.0)),
    "pad by nothing": (lambda x, y: sn.pad(x, [(0, 0)], 1.0), X),
    "pad by the edge": (lambda x, y: sn.pad(x, [(1, 1)], mode="edge"), np.pad(X, [(0, 0), (1, 1)], mode="edge")),
    "pad mirrored": (lambda x, y: sn.pad(x, [(2, 1)], mode="reflect"), np.pad(X, [(0, 0), (2, 1)], mode="reflect")),
    "roll": (lambda x, y: sn.roll(x, 2), np.roll(X, 2)),
    "flip": (lambda x, y: sn.flip(x), np.flip(X)),
    "tile": (lambda x, y: sn.tile(x, (2, 3)), np.tile(X, (2, 3))),
    "repeat": (lambda x, y: sn.repeat(x, 2, 1), np.repeat(X, 2, 1)),
    "split": (lambda x, y: sn.split(x, [1, 2], 1)[1], X[:, 1:]),
    "a slice": (lambda x, y: x[::-2, 1:], X[::-2, 1:]),
    "an integer array": (lambda x, y: x[PLACES], X[PLACES]),
    "two integer arrays": (lambda x, y: x[PLACES, COLUMNS[:, 0]], X[PLACES, COLUMNS[:, 0]]),
    "take": (lambda x, y: sn.take(x, PLACES, 0), X[PLACES]),
    "take_along_axis": (lambda x, y: sn.take_along_axis(x, COLUMNS, 1), np.take_along_axis(X, COLUMNS, 1)),
    "embedding": (lambda x, y: sn.embedding(x, PLACES[:2]), X[PLACES[:2]]),
    "scatter": (lambda x, y: sn.scatter(x, np.array([2, 0]), x[:2]), X[[1, 1, 0, 3]]),
    "update_rows": (lambda x, y: sn.update_rows(x, x[:2], 2, 0), X[[0, 1, 0, 1]]),
    "where": (lambda x, y: sn.where(HELD, x, 2.0), np.where(HELD, X, np.float32(2))),
    "where chained": (
        lambda x, y: sn.where(HELD, x, sn.where(x < 0, -0.0, x[::-1])),
        np.where(HELD, X, np.where(X < 0, np.float32(-0.0), X[::-1])),
    ),
    "max_pool": (
        lambda x, y: sn.max_pool(x[None, None, 3:], 3, padding=1, stride=1),
        torch.nn.functional.max_pool2d(torch.from_numpy(X[None, None, 3:]), 3, padding=1, stride=1).numpy(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVEMENTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_movement_keeps_the_sign_of_a_zero(name: str, dtype: Any) -> None:
    function, expected = MOVEMENTS[name]
    x, y = X.astype(dtype), Y.astype(dtype)
    interpreted = function(sn.array(x), sn.array(y)).numpy()
    compiled = sn.compile(function)(x, y).numpy()
    for value in (interpreted, compiled):
        np.testing.assert_array_equal(value.astype(np.float64), expected.astype(np.float64))
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(value)[zeros], np.signbit(expected)[zeros])


def test_a_sum_of_selections_that_may_both_hold_is_a_sum() -> None:
    x = np.array([-0.0, 0.0, 3.0], np.float32)
    overlapping = lambda x: sn.multiply(x < 1, x) + sn.multiply(x < 2, x)  # noqa: E731 - used twice below
    np.testing.assert_array_equal(overlapping(sn.array(x)).numpy(), [0, 0, 0])
    np.testing.assert_array_equal(sn.compile(overlapping)(x).numpy(), [0, 0, 0])


def test_rows_that_are_all_selected_add_up() -> None:
    """A mask that fixes one of two summed axes leaves a sum over the other."""
    x = np.array([[-1.0, 3.0], [-2.0, 2.0]], np.float32)
    both = lambda x: sn.sum(sn.multiply((sn.iota(2) == 1)[:, None], x), (0, 1))  # noqa: E731 - used twice below
    assert both(sn.array(x)).numpy() == sn.compile(both)(x).numpy() == 0
    rest = lambda x: sn.sum(sn.multiply((sn.iota(2) == 0)[:, None], x), (0, 1))  # noqa: E731 - used twice below
    assert rest(sn.array(x)).numpy() == sn.compile(rest)(x).numpy() == 2


def test_zeros_of_either_sign_are_constants_of_their_own() -> None:
    """They are equal as numbers, so a memo keyed by the number would mix them up."""
    for value in (0.0, -0.0, 0, -0.0, 0.0):
        result = literal(value, f64)
        assert result == ("0x8000000000000000" if np.signbit(value) else "0x0000000000000000")
