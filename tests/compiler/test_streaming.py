"""Programs written naively whose long rows are computed in one pass: equal to NumPy in float64, with no row stored.

Tolerances: a row's weights sum to 1, each has an error of a few epsilons times its exponent's magnitude, and products of
64 terms have sqrt(64) epsilons; 32 epsilons of the largest magnitude cover all of them at these sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import lowered, spec

import snell as sn
from snell.compiler.lowered import Lowered
from snell.loops import fused, streaming
from snell.loops.interpret import interpret
from snell.loops.ir import Buffer
from snell.loops.parse import parse_kernel
from snell.loops.text import print_kernel
from snell.rewrite.policy import Policy
from snell.symbolic import as_expr

Array = np.ndarray[Any, np.dtype[Any]]
EPSILON = float(np.finfo(np.float32).eps)
ROWS, LONG, WIDTH = 50, 2100, 64


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


def buffers(result: Lowered) -> list[Buffer]:
    """What kernels keep between their loops: local values and what passes from kernel to kernel."""
    kernels = [kernel.kernel for kernel in result.kernels]
    return [buffer for kernel in kernels for buffer in (*kernel.buffers, *kernel.locals())]


def assert_one_pass(result: Lowered, positions: int) -> None:
    """One kernel, in which no value of a row is as long as the row."""
    assert len(result.kernels) == 1
    (group,) = result.groups
    assert group.blocks is not None
    rows = [b for b in result.kernels[0].kernel.locals() if "packed" not in b.name and positions in b.shape]
    assert rows == []


def run(result: Lowered, values: dict[str, Array], sizes: dict[sn.Dim, int]) -> None:
    """The kernels interpreted, on the program's tensors by name; what passes between them is made here."""
    for built in result.kernels:
        for held in built.tensors:
            shape = [as_expr(size).evaluate(sizes) for size in held.shape]
            values.setdefault(held.name, np.zeros(shape, held.dtype.numpy))
        pairs = zip(built.kernel.buffers, built.tensors, strict=True)
        interpret(built.kernel, {buffer.name: values[held.name].reshape(-1) for buffer, held in pairs}, sizes)


def weights(scores: Array, axis: Any = -1) -> Array:
    powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def scores(q: Array, k: Array) -> Array:
    return q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * 0.125


def assert_close(found: Array, expected: Array, most: float) -> None:
    bound = 32 * EPSILON * most
    assert np.abs(found - expected).max() <= bound, (np.abs(found - expected).max(), bound)


# -- weighted sums of values: q·k, a maximum, powers, a sum, a product


def full(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    return sn.softmax(q @ k.transpose(-2, -1) * 0.125, axis=-1) @ v


def causal(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    s = q @ k.transpose(-2, -1) * 0.125
    later = sn.arange(q.shape[-2]).reshape(-1, 1) < sn.arange(k.shape[-2]).reshape(1, -1)
    return sn.softmax(sn.where(later, float("-inf"), s), axis=-1) @ v


def biased(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor, b: sn.Tensor) -> sn.Tensor:
    return sn.softmax(q @ k.transpose(-2, -1) * 0.125 + b, axis=-1) @ v


def capped(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    s = q @ k.transpose(-2, -1) * 0.125
    return sn.softmax(sn.tanh(s * 0.25) * 4.0, axis=-1) @ v


def grouped(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    heads = q.reshape(2, 3, ROWS, WIDTH)
    s = heads @ k.reshape(2, 1, LONG, WIDTH).transpose(-2, -1) * 0.125
    return (sn.softmax(s, axis=-1) @ v.reshape(2, 1, LONG, WIDTH)).reshape(6, ROWS, WIDTH)


Q, K, V, BIAS = normal(2, ROWS, WIDTH), normal(2, LONG, WIDTH), normal(2, LONG, WIDTH, seed=1), normal(ROWS, LONG)
SQUARE = normal(2, LONG, WIDTH, seed=2)
HEADS = normal(6, ROWS, WIDTH)


def test_weights_of_long_rows_are_never_stored() -> None:
    assert_close(sn.compile(full)(Q, K, V).numpy(), weights(scores(Q, K)) @ V, 8.0)
    assert_one_pass(lowered(full, spec(*Q.shape), spec(*K.shape), spec(*V.shape)), LONG)


def test_a_mask_of_positions_is_part_of_the_exponent() -> None:
    masked = np.where(np.arange(LONG)[:, None] < np.arange(LONG), -np.inf, scores(SQUARE, K))
    assert_close(sn.compile(causal)(SQUARE, K, V).numpy(), weights(masked) @ V, 8.0)
    assert_one_pass(lowered(causal, spec(*SQUARE.shape), spec(*K.shape), spec(*V.shape)), LONG)


def test_a_bias_is_part_of_the_exponent() -> None:
    assert_close(sn.compile(biased)(Q, K, V, BIAS).numpy(), weights(scores(Q, K) + BIAS) @ V, 8.0)
    assert_one_pass(lowered(biased, spec(*Q.shape), spec(*K.shape), spec(*V.shape), spec(*BIAS.shape)), LONG)


def test_scores_may_pass_through_a_function() -> None:
    assert_close(sn.compile(capped)(Q, K, V).numpy(), weights(np.tanh(scores(Q, K) / 4) * 4) @ V, 8.0)
    assert_one_pass(lowered(capped, spec(*Q.shape), spec(*K.shape), spec(*V.shape)), LONG)


def test_rows_may_share_operands_in_groups() -> None:
    found = sn.compile(grouped)(HEADS, K, V).numpy()
    k, v = (np.repeat(array, 3, axis=0) for array in (K, V))
    assert_close(found, weights(scores(HEADS, k)) @ v, 8.0)
    assert_one_pass(lowered(grouped, spec(*HEADS.shape), spec(*K.shape), spec(*V.shape)), LONG)


@pytest.mark.parametrize("length", [0, 1, 95, 97, 2100])
def test_one_program_serves_every_length_of_the_rows(length: int) -> None:
    n = sn.Dim("n", min=0, max=4096, typical=(2048,))
    function = sn.compile(full, dims={"k": (None, n, None), "v": (None, n, None)})
    found = function(Q, K[:, :length], V[:, :length]).numpy()
    if length:
        assert_close(found, weights(scores(Q, K[:, :length])) @ V[:, :length], 8.0)
    else:
        assert np.all(np.isnan(found) | (found == 0))


@pytest.mark.parametrize("length", [1, 97, 200])
def test_the_kernel_reads_back_from_its_text_and_the_interpreter_agrees(length: int) -> None:
    n = sn.Dim("n", min=0, max=4096, typical=(2048,))
    q, k, v = Q[:1, :3], K[:1, :length], V[:1, :length]
    result = lowered(full, spec(1, 3, WIDTH), spec(1, n, WIDTH), spec(1, n, WIDTH))
    for built in result.kernels:
        assert parse_kernel(print_kernel(built.kernel)) == built.kernel
    values = {"x0": q, "x1": k, "x2": v, "out0": np.zeros((1, 3, WIDTH), np.float32)}
    run(result, values, {n: length})
    assert_close(values["out0"], weights(scores(q, k)) @ v, 8.0)


# -- reductions of rows


X, Y = 4 * normal(64, 40_000), normal(64, 40_000, seed=3)


def logarithm(x: sn.Tensor) -> sn.Tensor:
    m = sn.max(x, axis=-1, keepdims=True)
    return sn.log(sn.sum(sn.exp(x - m), axis=-1)) + m.reshape(-1)


def logarithm_of_differences(x: sn.Tensor, y: sn.Tensor) -> sn.Tensor:
    return logarithm(x - y)


def unnamed(x: sn.Tensor, y: sn.Tensor) -> sn.Tensor:
    return sn.sum(sn.exp2(-x) * (y - sn.mean(y, axis=-1, keepdims=True)) ** 2, axis=-1)


def squares(x: sn.Tensor) -> sn.Tensor:
    return sn.mean((x - sn.mean(x, axis=-1, keepdims=True)) ** 2, axis=-1)


def logs(x: Array) -> Array:
    wide = x.astype(np.float64)
    most = wide.max(axis=-1)
    return most + np.log(np.exp(wide - most[:, None]).sum(axis=-1))


def test_the_logarithm_of_a_sum_of_powers_is_one_pass() -> None:
    assert_close(sn.compile(logarithm)(X).numpy(), logs(X), 20.0)
    assert_one_pass(lowered(logarithm, spec(*X.shape)), X.shape[1])


def test_so_it_is_of_differences() -> None:
    assert_close(sn.compile(logarithm_of_differences)(X, Y).numpy(), logs(X.astype(np.float64) - Y), 20.0)
    assert_one_pass(lowered(logarithm_of_differences, spec(*X.shape), spec(*Y.shape)), X.shape[1])


def always(*_: object) -> float:
    """A gain wherever there is a stream."""
    return 1.0


def test_a_weighted_square_distance_nobody_has_a_name_for_can_be_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its moments cost more arithmetic than reading a row of this length again, so the plan is asked for.
    monkeypatch.setattr(streaming, "_gain", always)
    x, y = normal(33, 4100), normal(33, 4100, seed=3)
    result = lowered(unnamed, spec(*x.shape), spec(*y.shape))
    assert_one_pass(result, x.shape[1])
    wide, values = (array.astype(np.float64) for array in (x, y))
    expected = (np.exp2(-wide) * (values - values.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    out = np.zeros(33, np.float32)
    run(result, {"x0": x, "x1": y, "out0": out}, {})
    assert_close(out / expected, np.ones(33), 1.0)


def test_squares_about_a_mean_far_from_zero_keep_their_digits() -> None:
    far = X + np.float32(1000)
    expected = far.astype(np.float64).var(axis=-1)
    # The mean has an error of epsilons of 1,000 and enters as its square; moments are about values near it.
    assert_close(sn.compile(squares)(far).numpy() / expected, np.ones(64), 20.0)
    assert_one_pass(lowered(squares, spec(*X.shape)), X.shape[1])


def over_two_axes(x: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    return sn.einsum("iab,abd->id", sn.softmax(x, axis=(-2, -1)), v)


def test_weights_over_two_axes_are_worked_out_in_one_pass() -> None:
    x, v = normal(32, 60, 512), normal(60, 512, 32)
    expected = np.einsum("iab,abd->id", weights(x.astype(np.float64), (-2, -1)), v.astype(np.float64))
    assert_close(sn.compile(over_two_axes)(x, v).numpy(), expected, 8.0)
    assert_one_pass(lowered(over_two_axes, spec(*x.shape), spec(*v.shape)), 60)


def loss(h: sn.Tensor, w: sn.Tensor, y: sn.Tensor) -> sn.Tensor:
    z = h @ w
    return logarithm(z) - sn.take_along_axis(z, y.reshape(-1, 1), axis=-1).reshape(-1)


def test_the_loss_over_a_large_vocabulary_never_stores_its_logits() -> None:
    h, w = normal(48, 64), normal(64, 20_000)
    y = np.arange(48, dtype=np.int32) * 400
    z = h.astype(np.float64) @ w.astype(np.float64)
    expected = logs(z) - z[np.arange(48), y]
    assert_close(sn.compile(loss)(h, w, y).numpy(), expected, 60.0)
    result = lowered(loss, spec(*h.shape), spec(*w.shape), spec(48, dtype="i32"))
    assert sum(group.blocks is not None for group in result.groups) == 1
    assert not [b for b in buffers(result) if b.shape == (48, 20_000)]


def test_a_large_operand_is_packed_a_block_at_a_time() -> None:
    result = lowered(loss, spec(48, 64), spec(64, 20_000), spec(48, dtype="i32"))
    packed = [b for kernel in result.kernels for b in kernel.kernel.locals() if "packed" in b.name]
    assert packed
    assert all(b.shape[0] == 64 and int(b.shape[1]) <= 2048 for b in packed)


def test_a_small_operand_is_packed_whole() -> None:
    result = lowered(full, spec(*Q.shape), spec(*K.shape), spec(*V.shape))
    packed = [b for kernel in result.kernels for b in kernel.kernel.locals() if "packed" in b.name]
    assert [LONG in b.shape for b in packed] == [True, True]


@pytest.mark.parametrize("program", ["full", "causal"])
def test_rows_that_share_a_packed_block_keep_their_own_states(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_NEAR", 0.0)
    monkeypatch.setattr(streaming, "_gain", always)
    n = 430  # several blocks of rows and of positions, the last of both shorter
    q, k, v = normal(1, n, WIDTH), normal(1, n, WIDTH, seed=1), normal(1, n, WIDTH, seed=2)
    function, masked = (full, scores(q, k)) if program == "full" else (causal, causal_scores(q, k))
    result = lowered(function, spec(*q.shape), spec(*k.shape), spec(*v.shape))
    assert_one_pass(result, n)
    packed = [b for b in result.kernels[0].kernel.locals() if "packed" in b.name]
    assert len(packed) == 2
    assert all(n not in b.shape for b in packed)
    assert_close(sn.compile(function)(q, k, v).numpy(), weights(masked) @ v, 8.0)


def causal_scores(q: Array, k: Array) -> Array:
    places = np.arange(q.shape[-2])
    return np.where(places[:, None] < places, -np.inf, scores(q, k))


def test_short_rows_keep_their_plan() -> None:
    assert all(group.blocks is None for group in lowered(full, *(spec(4, 64, 64) for _ in range(3))).groups)
    assert all(group.blocks is None for group in lowered(logarithm, spec(64, 128)).groups)


def test_the_strict_policy_keeps_the_order_of_the_program() -> None:
    result = lowered(full, spec(*Q.shape), spec(*K.shape), spec(*V.shape), policy=Policy.STRICT)
    assert all(group.blocks is None for group in result.groups)
