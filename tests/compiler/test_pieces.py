"""Streams of few rows: threads share a row piece by piece, and the states of the pieces are combined after.

Tolerances as in `test_streaming`: 32 epsilons of the largest magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import lowered, spec

import snell as sn
from snell.compiler.lowered import Lowered
from snell.compiler.lowering import lower_graph
from snell.compiler.rewriting import ProgramRewriter
from snell.frontend import trace
from snell.loops.interpret import interpret
from snell.loops.parse import parse_kernel
from snell.loops.text import print_kernel
from snell.rewrite.policy import Policy
from snell.symbolic import as_expr
from snell.targets import AVX2

Array = np.ndarray[Any, np.dtype[Any]]
EPSILON = float(np.finfo(np.float32).eps)
HEADS, KEYS, WIDTH = 4, 4100, 32


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


def assert_close(found: Array, expected: Array, most: float) -> None:
    bound = 32 * EPSILON * most
    assert np.abs(found - expected).max() <= bound, (np.abs(found - expected).max(), bound)


def assert_in_pieces(result: Lowered) -> None:
    """One kernel hands out pieces of rows, a second one combines their states."""
    first, second = result.groups
    assert first.blocks is not None
    assert first.blocks.pieces is not None
    assert second.blocks is None


def interpreted(result: Lowered, values: dict[str, Array], sizes: dict[sn.Dim, int]) -> Array:
    """The first result when the kernels are interpreted, read back from their text."""
    held = dict(values)
    for built in result.kernels:
        assert parse_kernel(print_kernel(built.kernel)) == built.kernel
        for tensor in built.tensors:
            shape = [int(as_expr(size).evaluate(sizes)) for size in tensor.shape]
            held.setdefault(tensor.name, np.full(shape, np.nan, np.float32))
        pairs = zip(built.kernel.buffers, built.tensors, strict=True)
        interpret(built.kernel, {buffer.name: held[tensor.name].reshape(-1) for buffer, tensor in pairs}, sizes)
    return held["out0"]


def weighted(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    return sn.softmax(q @ k.transpose(-2, -1) * 0.125, axis=-1) @ v


def weighted_values(q: Array, k: Array, v: Array) -> Array:
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * 0.125
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


Q, K, V = normal(HEADS, 1, WIDTH), normal(HEADS, KEYS, WIDTH), normal(HEADS, KEYS, WIDTH, seed=1)


def test_one_query_against_many_keys_is_shared_piece_by_piece() -> None:
    assert_close(sn.compile(weighted)(Q, K, V).numpy(), weighted_values(Q, K, V), 8.0)
    assert_in_pieces(lowered(weighted, spec(*Q.shape), spec(*K.shape), spec(*V.shape)))


def test_rows_that_share_their_keys_are_shared_as_well() -> None:
    q, k, v = normal(2, 3, WIDTH), K[:2], V[:2]
    assert_close(sn.compile(weighted)(q, k, v).numpy(), weighted_values(q, k, v), 8.0)
    assert_in_pieces(lowered(weighted, spec(*q.shape), spec(*k.shape), spec(*v.shape)))


def test_many_rows_are_tickets_enough() -> None:
    result = lowered(weighted, spec(64, 1, WIDTH), spec(64, KEYS, WIDTH), spec(64, KEYS, WIDTH))
    assert all(group.blocks is None or group.blocks.pieces is None for group in result.groups)


@pytest.mark.parametrize("length", [0, 1, 671, 673, KEYS])
def test_one_program_cuts_every_length_of_a_row(length: int) -> None:
    n = sn.Dim("n", min=0, max=8192, typical=(4096,))
    function = sn.compile(weighted, dims={"k": (None, n, None), "v": (None, n, None)})
    found = function(Q, K[:, :length], V[:, :length]).numpy()
    if length:
        assert_close(found, weighted_values(Q, K[:, :length], V[:, :length]), 8.0)
    else:
        assert np.all(np.isnan(found) | (found == 0))


@pytest.mark.parametrize("length", [1, 900])
def test_the_kernels_read_back_from_their_text_and_the_interpreter_agrees(length: int) -> None:
    n = sn.Dim("n", min=0, max=8192, typical=(4096,))
    q, k, v = Q[:1], np.ascontiguousarray(K[:1, :length]), np.ascontiguousarray(V[:1, :length])
    result = lowered(weighted, spec(1, 1, WIDTH), spec(1, n, WIDTH), spec(1, n, WIDTH))
    assert_in_pieces(result)
    assert_close(interpreted(result, {"x0": q, "x1": k, "x2": v}, {n: length}), weighted_values(q, k, v), 8.0)


@pytest.mark.parametrize("valid", [1, 500, 2000, KEYS])
def test_pieces_that_a_mask_hides_leave_nothing_behind(valid: int) -> None:
    # What lies behind the valid positions is as in a cache that nobody has written: anything.
    n = sn.Dim("n", min=1, max=KEYS, typical=(KEYS,))

    def masked(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor, rows: sn.Tensor) -> sn.Tensor:
        s = q @ k.transpose(-2, -1) * 0.125
        hidden = sn.arange(KEYS) < rows.shape[0]
        return sn.softmax(sn.where(hidden, s, float("-inf")), axis=-1) @ v

    function = sn.compile(masked, dims={"rows": (n,)})
    found = function(Q, K, V, np.zeros(valid, np.float32)).numpy()
    assert_close(found, weighted_values(Q, K[:, :valid], V[:, :valid]), 8.0)


# -- one row of numbers


def logarithm(x: sn.Tensor) -> sn.Tensor:
    m = sn.max(x)
    return sn.log(sn.sum(sn.exp(x - m))) + m


def squares(x: sn.Tensor) -> sn.Tensor:
    return sn.mean((x - sn.mean(x)) ** 2)


LONG = 4 * normal(300_001)


def test_the_logarithm_of_a_sum_of_powers_of_one_row_is_one_pass() -> None:
    wide = LONG.astype(np.float64)
    expected = np.log(np.exp(wide - wide.max()).sum()) + wide.max()
    assert_close(sn.compile(logarithm)(LONG).numpy(), expected, 20.0)
    assert_in_pieces(lowered(logarithm, spec(*LONG.shape)))


def test_a_row_whose_pieces_have_nothing_finite_but_one() -> None:
    x = np.full_like(LONG, -np.inf)
    x[123_456] = 3.0
    assert sn.compile(logarithm)(x).numpy() == 3.0


def test_a_not_a_number_in_a_piece_stays_one() -> None:
    x = LONG.copy()
    x[200_000] = np.nan
    assert np.isnan(sn.compile(logarithm)(x).numpy())


def test_squares_about_a_mean_far_from_zero_keep_their_digits() -> None:
    far = LONG + np.float32(1000)
    assert_close(sn.compile(squares)(far).numpy() / far.astype(np.float64).var(), np.ones(()), 20.0)
    assert_in_pieces(lowered(squares, spec(*LONG.shape)))


@pytest.mark.parametrize("function", [logarithm, squares])
def test_how_a_row_is_cut_does_not_depend_on_the_threads(function: Callable[..., Any]) -> None:
    graph = trace(function, (spec(*LONG.shape),), ("x0",)).graph
    few, many = (lower_graph(graph, ProgramRewriter(Policy.DEFAULT), AVX2, threads) for threads in (1, 16))
    assert few.groups == many.groups
