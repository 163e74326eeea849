"""Masked programs: loops leave out what masks make 0, and results equal NumPy's in float64.

Tolerances: as in `test_streaming`, 32 epsilons of the largest magnitude for rows whose weights sum to 1; sums of n
masked products have the forward error n·eps/2 of the sum of magnitudes (Higham, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.programs import lowered, spec

import snell as sn
from snell.compiler.lowered import Lowered
from snell.loops.ir import Loop, statements
from snell.rewrite.policy import Policy

Array = np.ndarray[Any, np.dtype[Any]]
Mask = Callable[[Any, Any], Any]
EPSILON = float(np.finfo(np.float32).eps)

MASKS: dict[str, Mask] = {
    "earlier": lambda i, j: j <= i,
    "later": lambda i, j: j >= i,
    "window": lambda i, j: (j <= i) & (j > i - 37),
    "around": lambda i, j: (j < i + 20) & (j > i - 20),
    "strictly earlier": lambda i, j: j < i,
    "beginning": lambda i, j: (j < 9) & (i >= 0),
    "other diagonal": lambda i, j: i + j < 300,
    "twice as fast": lambda i, j: j <= 2 * i,
    "nothing": lambda i, j: j < i - 10_000,
}


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


def bounded(result: Lowered) -> list[Loop]:
    """Loops with a bound."""
    phases = [phase for kernel in result.kernels for phase in kernel.kernel.phases]
    loops = [s for phase in phases for s in statements(phase.body) if isinstance(s, Loop)]
    return [loop for loop in loops if loop.lower is not None or loop.upper is not None]


def weighted(mask: Mask) -> Callable[..., sn.Tensor]:
    def function(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
        rows, columns = sn.arange(q.shape[-2]), sn.arange(k.shape[-2])
        scores = q @ k.transpose(-2, -1) * 0.125
        scores = sn.where(mask(rows[:, None], columns), scores, -np.inf)
        total = sn.softmax(scores, axis=-1) @ v
        return sn.where(mask(rows[:, None], columns).any(-1, keepdims=True), total, 0)

    return function


def expected(mask: Mask, q: Array, k: Array, v: Array) -> Array:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    keep = np.broadcast_to(mask(np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])), (q.shape[-2], k.shape[-2]))
    scores = np.where(keep, q @ np.swapaxes(k, -2, -1) * 0.125, -np.inf)
    greatest = np.where(keep.any(-1, keepdims=True), scores.max(-1, keepdims=True, initial=-np.inf), 0)
    powers = np.exp(scores - greatest)
    total = powers.sum(-1, keepdims=True)
    return np.where(keep.any(-1, keepdims=True), powers @ v / np.where(total == 0, 1, total), 0)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("heads", "rows", "columns"), [(2, 200, 200), (1, 131, 1100), (3, 70, 65), (1, 2100, 2050)])
def test_masked_weights_equal_numpy(name: str, heads: int, rows: int, columns: int) -> None:
    mask = MASKS[name]
    q, k, v = normal(heads, rows, 64), normal(heads, columns, 64, seed=1), normal(heads, columns, 64, seed=2)
    result = sn.compile(weighted(mask))(q, k, v).numpy()
    wanted = expected(mask, q, k, v)
    assert np.abs(result - wanted).max() <= 32 * EPSILON * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("name", ["earlier", "later", "window", "around", "other diagonal"])
@pytest.mark.parametrize("size", [512, 4096])
def test_loops_of_masked_weights_have_bounds(name: str, size: int) -> None:
    result = lowered(weighted(MASKS[name]), spec(4, size, 64), spec(4, size, 64), spec(4, size, 64))
    sides = [(loop.lower is not None, loop.upper is not None) for loop in bounded(result)]
    assert any(upper for _, upper in sides) == (name != "later")
    assert any(lower for lower, _ in sides) == (name in ("later", "window", "around"))


def test_a_mask_that_depends_on_values_gives_no_bounds() -> None:
    def function(x: sn.Tensor, lengths: sn.Tensor) -> sn.Tensor:
        keep = sn.arange(x.shape[-1]) < lengths[:, None]
        return sn.softmax(sn.where(keep, x, -np.inf), axis=-1)

    result = lowered(function, spec(64, 512), spec(64, dtype="i64"))
    assert not bounded(result)
    x, lengths = normal(64, 512), np.arange(1, 65)
    found = sn.compile(function)(x, lengths).numpy()
    powers = np.where(np.arange(512) < lengths[:, None], np.exp(x.astype(np.float64)), 0)
    assert np.abs(found - powers / powers.sum(-1, keepdims=True)).max() <= 32 * EPSILON


def test_strict_programs_visit_everything() -> None:
    def function(x: sn.Tensor, w: sn.Tensor) -> sn.Tensor:
        return sn.sum(sn.where(sn.arange(300) <= sn.arange(300)[:, None], x, 0)[:, :, None] * w, axis=1)

    assert not bounded(lowered(function, spec(300, 300), spec(300, 40), policy=Policy.STRICT))
    x, w = normal(300, 300), normal(300, 40)
    w[200] = np.nan  # 0 · NaN is NaN
    assert np.isnan(sn.compile(function, precision="strict")(x, w).numpy()).all()


@pytest.mark.parametrize("count", [1, 2, 31, 64, 300])
@pytest.mark.parametrize("past", [0, 5, 200])
def test_symbolic_positions_after_others_are_right(count: int, past: int) -> None:
    """Rows that begin at a position known at run time, as of a growing cache."""
    new, whole = sn.Dim("new", min=1, max=512, typical=(64,)), sn.Dim("whole", min=1, max=1024, typical=(128,))

    def function(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
        rows, columns, old = sn.arange(q.shape[0]), sn.arange(k.shape[0]), k.shape[0] - q.shape[0]
        scores = q @ k.T * 0.125
        return sn.softmax(sn.where(columns <= rows[:, None] + old, scores, -np.inf), axis=-1) @ v

    compiled = sn.compile(function, dims={"q": (new, None), "k": (whole, None), "v": (whole, None)})
    q, k, v = normal(count, 64), normal(past + count, 64, seed=1), normal(past + count, 64, seed=2)
    wanted = expected(lambda i, j: j <= i + past, q, k, v)
    found = compiled(q, k, v).numpy()
    assert np.abs(found - wanted).max() <= 32 * EPSILON * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("shape", [(150, 700, 40), (33, 1500, 300), (9, 64, 5)])
def test_masked_products_equal_numpy(name: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    mask = MASKS[name]

    def function(a: sn.Tensor, b: sn.Tensor) -> sn.Tensor:
        return sn.where(mask(sn.arange(m)[:, None], sn.arange(k)), a, 0) @ b

    a, b = normal(m, k), normal(k, n, seed=1)
    wide = np.where(mask(np.arange(m)[:, None], np.arange(k)), a.astype(np.float64), 0)
    result = sn.compile(function)(a, b).numpy()
    assert np.all(np.abs(result - wide @ b) <= k * EPSILON / 2 * (np.abs(wide) @ np.abs(b)))


@given(
    rows=st.integers(1, 90),
    columns=st.integers(1, 400),
    bounds=st.lists(
        st.tuples(st.sampled_from([-2, -1, 0, 1, 2]), st.sampled_from([-1, 1]), st.integers(-150, 150)),
        min_size=1,
        max_size=3,
    ),
    seed=st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_any_affine_mask_is_right(rows: int, columns: int, bounds: list[tuple[int, int, int]], seed: int) -> None:
    """`a·i + b·j + c >= 0`, several of them, before a maximum, an exponential, a sum and a product."""

    def mask(i: Any, j: Any) -> Any:
        keep = i * 0 + j * 0 == 0
        for a, b, c in bounds:
            keep = keep & (a * i + b * j + c >= 0)
        return keep

    q, k, v = normal(2, rows, 8, seed=seed), normal(2, columns, 8, seed=seed + 4), normal(2, columns, 24, seed=seed + 8)
    result = sn.compile(weighted(mask))(q, k, v).numpy()
    wanted = expected(mask, q, k, v)
    assert np.abs(result - wanted).max() <= 32 * EPSILON * max(1.0, np.abs(wanted).max())
