"""Scatters: a reduction at the rows that a loaded integer names walks its positions once, in order.

A row takes in at most `m` values, in f32 or wider, so it is off by at most `m` half epsilons of the sum of their
magnitudes, and by half an epsilon of itself for the rounding to its own dtype.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.programs import lowered, spec

import snell as sn
from snell.compiler.lowered import Lowered
from snell.config import Config
from snell.dtypes import bool_, f32, i32
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from snell.loops.build import build_kernel
from snell.loops.grouping import Group
from snell.loops.interpret import interpret
from snell.loops.ir import Loop, statements
from snell.loops.parse import parse_kernel
from snell.loops.stage import stages_of
from snell.loops.text import print_kernel
from snell.rewrite.definition import Definition
from snell.rewrite.term import Equal, Select, Subtract, Sum, Tensor, cast, index, load, number, reduction, term
from snell.symbolic import Axis, as_expr
from snell.targets import AVX2

Array = np.ndarray[Any, np.dtype[Any]]
EPSILON = float(np.finfo(np.float32).eps)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


def chosen(extent: int, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, extent, *shape]).integers(0, extent, shape)


def gradient(table: sn.Tensor, ids: sn.Tensor, cotangent: sn.Tensor) -> sn.Tensor:
    """Of a look-up; ids outside of the table read 0."""
    return sn.grad(lambda t: sn.sum(sn.take(t, ids, axis=0, mode="zero") * cotangent))(table)


def added_up(extent: int, ids: Array, values: Array) -> tuple[Array, Array]:
    """Rows in f64, and the sums of their magnitudes; ids outside are left out."""
    inside = (ids >= 0) & (ids < extent)
    total, magnitude = np.zeros((2, extent, *values.shape[ids.ndim :]))
    np.add.at(total, ids[inside], values[inside].astype(np.float64))
    np.add.at(magnitude, ids[inside], np.abs(values[inside].astype(np.float64)))
    return total, magnitude


def assert_rows(found: Array, extent: int, ids: Array, values: Array) -> None:
    expected, magnitude = added_up(extent, ids, values)
    most = np.bincount(ids.reshape(-1).clip(0, extent)).max(initial=0)
    assert np.all(np.abs(found - expected) <= (most + 1) * EPSILON / 2 * magnitude)


def walks(result: Lowered) -> int:
    """How many kernels have a loop from a loaded position."""
    loops = [
        any(isinstance(s, Loop) and s.lower is not None and not s.lower.is_constant for s in statements(phase.body))
        for built in result.kernels
        for phase in built.kernel.phases
    ]
    return sum(loops)


def interpreted(result: Lowered, values: dict[str, Array], sizes: dict[sn.Dim, int] | None = None) -> Array:
    """The first result when the kernels are interpreted, read back from their text."""
    held = dict(values)
    for built in result.kernels:
        assert parse_kernel(print_kernel(built.kernel)) == built.kernel
        for tensor in built.tensors:
            shape = [int(as_expr(size).evaluate(sizes or {})) for size in tensor.shape]
            held.setdefault(tensor.name, np.zeros(shape, tensor.dtype.numpy))
        pairs = zip(built.kernel.buffers, built.tensors, strict=True)
        interpret(built.kernel, {buffer.name: held[tensor.name].reshape(-1) for buffer, tensor in pairs}, sizes)
    return held["out0"]


def test_the_gradient_of_a_look_up_is_interpreted_as_it_is_printed() -> None:
    table, ids, values = spec(300, 20), spec(90, dtype="i64"), spec(90, 20)
    result = lowered(gradient, table, ids, values)
    assert walks(result) == 1
    places, rows = chosen(310, 90) - 5, normal(90, 20)
    found = interpreted(result, {"x0": normal(300, 20), "x1": places, "x2": rows})
    np.testing.assert_allclose(found, added_up(300, places, rows)[0], rtol=0, atol=1e-5)


def test_few_rows_meet_every_position_in_lanes() -> None:
    assert walks(lowered(gradient, spec(2, 16), spec(64, dtype="i64"), spec(64, 16))) == 0


def test_a_look_up_stays_an_indexed_load_beside_its_gradient() -> None:
    def both(table: sn.Tensor, ids: sn.Tensor) -> tuple[sn.Tensor, sn.Tensor]:
        return sn.value_and_grad(lambda t: sn.sum(sn.exp(sn.embedding(t, ids, mode="zero"))))(table)

    result = lowered(both, spec(3000, 32), spec(200, dtype="i64"))
    assert walks(result) == 1
    assert "index(" not in "".join(print_kernel(built.kernel) for built in result.kernels)


def test_a_vocabulary_of_50257_is_no_more_work_than_its_rows() -> None:
    ids, values = chosen(50_257, 2048), normal(2048, 64)
    found = sn.compile(gradient)(normal(50_257, 64), ids, values).numpy()
    expected = torch.ops.aten.embedding_dense_backward(
        torch.from_numpy(values), torch.from_numpy(ids), 50_257, -1, False
    )
    assert_rows(found, 50_257, ids, values)
    bound = 2048 * EPSILON * added_up(50_257, ids, values)[1]
    assert np.all(np.abs(found - expected.numpy()) <= bound)


EXTENT, WIDTH, COUNT = (sn.Dim(n, min=1, max=1 << 12, typical=(t,)) for n, t in (("e", 700), ("w", 32), ("c", 90)))
COMPILED = sn.compile(
    lambda x, ids, rows: sn.scatter_add(x, ids, rows, mode="zero"),
    dims={"x": (EXTENT, WIDTH), "ids": (COUNT,), "rows": (COUNT, WIDTH)},
)


@settings(deadline=None, max_examples=60)
@given(
    extent=st.integers(1, 700), width=st.integers(1, 70), count=st.integers(1, 90), kinds=st.integers(1, 100),
    outside=st.booleans(), seed=st.integers(0, 1000),
)  # fmt: skip
def test_rows_add_up_whatever_the_sizes_and_repeats(
    extent: int, width: int, count: int, kinds: int, outside: bool, seed: int
) -> None:
    ids = chosen(min(kinds, extent) + 2 * outside, count, seed=seed) - outside
    ids[:1] = np.iinfo(np.int64).max if seed % 3 == 0 else np.iinfo(np.int64).min if seed % 3 == 1 else 0
    values = normal(count, width, seed=seed)
    found = COMPILED(np.zeros((extent, width), np.float32), ids, values).numpy()
    assert_rows(found, extent, ids, values)


@pytest.mark.parametrize("count", [0, 1, 500, 9000])
def test_as_many_positions_as_there_are_are_added_up(count: int) -> None:
    tokens = sn.Dim("tokens", min=0, max=1 << 20, typical=(2000,))
    ids, values = chosen(1000, count), normal(count, 32)
    f = sn.compile(gradient, dims={"ids": (tokens,), "cotangent": (tokens, None)})
    assert_rows(f(normal(1000, 32), ids, values).numpy(), 1000, ids, values)


def test_a_row_of_very_many_values_is_as_exact_as_one_of_few() -> None:
    ids, values = np.zeros(200_000, np.int64), np.full((200_000, 16), 0.1, np.float32)
    found = sn.compile(gradient)(normal(500, 16), ids, values).numpy()
    np.testing.assert_allclose(found[0], 200_000 * float(np.float32(0.1)), rtol=EPSILON / 2)
    assert not found[1:].any()


def test_sums_of_bf16_values_are_f32() -> None:
    ids, values = np.zeros(1000, np.int64), sn.Array(np.full((1000, 16), 1.0, np.float32)).numpy()
    f = sn.compile(lambda t, i, v: gradient(t.astype("bf16"), i, v.astype("bf16")).astype("f32"))
    assert f(normal(300, 16), ids, values).numpy()[0].tolist() == [1000.0] * 16


@pytest.mark.parametrize("extents", [(37, 5), (40, 64)])
def test_several_indexed_axes_are_placed_together(extents: tuple[int, int]) -> None:
    def picked(x: sn.Tensor, i: sn.Tensor, j: sn.Tensor, g: sn.Tensor) -> sn.Tensor:
        return sn.grad(lambda x: sn.sum(x[i, j] * g))(x)

    i, j, g = chosen(extents[0], 800), chosen(extents[1], 800, seed=1), normal(800, 24)
    x = normal(*extents, 24)
    t = torch.zeros(x.shape, dtype=torch.float64)
    t.index_put_((torch.from_numpy(i), torch.from_numpy(j)), torch.from_numpy(g).double(), accumulate=True)
    found = sn.compile(picked)(x, i, j, g).numpy()
    np.testing.assert_allclose(found, t.numpy(), rtol=0, atol=800 * EPSILON)


def test_a_row_that_is_reshaped_is_found_by_its_digits() -> None:
    def folded(x: sn.Tensor, ids: sn.Tensor, g: sn.Tensor) -> sn.Tensor:
        return sn.grad(lambda x: sn.sum(sn.take(x.reshape(64 * 9, 8), ids, axis=0, mode="zero") * g))(x)

    ids, g = chosen(64 * 9 + 4, 700) - 2, normal(700, 8)
    assert walks(lowered(folded, spec(64, 9, 8), spec(700, dtype="i64"), spec(700, 8))) == 1
    found = sn.compile(folded)(normal(64, 9, 8), ids, g).numpy()
    assert_rows(found.reshape(64 * 9, 8), 64 * 9, ids, g)


def test_every_row_of_a_batch_has_indices_of_its_own() -> None:
    def along(x: sn.Tensor, ids: sn.Tensor, g: sn.Tensor) -> sn.Tensor:
        return sn.grad(lambda x: sn.sum(sn.take_along_axis(x, ids, 1, mode="zero") * g))(x)

    ids, g = chosen(900, 6, 200), normal(6, 200)
    found = sn.compile(along)(normal(6, 900), ids, g).numpy()
    expected = torch.zeros(6, 900, dtype=torch.float64).scatter_add_(
        1, torch.from_numpy(ids), torch.from_numpy(g).double()
    )
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=200 * EPSILON)


def test_a_mask_leaves_positions_out_whatever_they_hold() -> None:
    def masked(ids: sn.Tensor, keep: sn.Tensor, g: sn.Tensor) -> sn.Tensor:
        hits = sn.equal(ids.reshape(1, 600, 1), sn.arange(800).reshape(800, 1, 1))
        return sn.sum(sn.where(sn.logical_and(hits, keep.reshape(1, 600, 1)), g, 0.0), 1)

    ids, keep, g = chosen(800, 600), chosen(2, 600) > 0, normal(600, 40)
    assert walks(lowered(masked, spec(600, dtype="i64"), spec(600, dtype="bool"), spec(600, 40))) == 1
    holed = np.where(keep[:, None], g, np.nan).astype(np.float32)
    found = sn.compile(masked)(ids, keep, holed).numpy()
    assert_rows(found, 800, np.where(keep, ids, -1), g)


@pytest.mark.parametrize("width", [1, 24])
def test_the_greatest_value_of_each_segment_is_a_walk_too(width: int) -> None:
    def greatest(ids: sn.Tensor, values: sn.Tensor) -> sn.Tensor:
        hits = sn.equal(ids.reshape(1, 900, 1), sn.arange(700).reshape(700, 1, 1))
        return sn.max(sn.where(hits, values, -np.inf), 1)

    ids, values = chosen(700, 900), normal(900, width)
    values[5] = np.nan
    assert walks(lowered(greatest, spec(900, dtype="i64"), spec(900, width))) == 1
    expected = np.full((700, width), -np.inf, np.float32)
    np.maximum.at(expected, ids, values)
    np.testing.assert_array_equal(sn.compile(greatest)(ids, values).numpy(), expected)


def test_reductions_at_the_same_places_share_a_walk() -> None:
    r, n = Axis("r", 300), Axis("n", 200)
    index_of, x, out = Tensor("index", (200,), i32), Tensor("x", (200,), f32), Tensor("out", (300,), f32)
    place = as_expr(n)
    hit = term(Equal(), (load(index_of, (place,)), cast(index(as_expr(r)), i32)), bool_)
    sums = [reduction(Sum((n,)), term(Select(), (hit, v), f32)) for v in (load(x, (place,)), number(1, f32))]
    (stage,) = stages_of(Definition(out, (r,), (as_expr(r),), term(Subtract(), (sums[0], sums[1]), f32)), count())
    built = build_kernel(Group((stage,), ()), AVX2, 2, {})
    places, values = chosen(310, 200) - 5, normal(200)
    held = {"index": places.astype(np.int32), "x": values, "out": np.full(300, np.nan, np.float32)}
    interpret(built.kernel, {b.name: held[t.name] for b, t in zip(built.kernel.buffers, built.tensors, strict=True)})
    assert len(built.kernel.locals()) == 2
    np.testing.assert_allclose(held["out"], added_up(300, places, values - 1.0)[0], rtol=0, atol=1e-5)


def test_means_of_segments_are_walks() -> None:
    def means(ids: sn.Tensor, values: sn.Tensor) -> sn.Tensor:
        hits = sn.equal(ids.reshape(1, 900), sn.arange(700).reshape(700, 1))
        return sn.sum(sn.where(hits, values, 0.0), 1) / sn.maximum(sn.sum(sn.where(hits, 1.0, 0.0), 1), 1.0)

    ids, values = chosen(700, 900), normal(900)
    assert walks(lowered(means, spec(900, dtype="i64"), spec(900))) == 2
    found = sn.compile(means)(ids, values).numpy()
    total, magnitude = added_up(700, ids, values)
    count = np.bincount(ids, minlength=700).clip(1)
    assert np.all(np.abs(found - total / count) <= (count + 1) * EPSILON / 2 * magnitude / count)


def test_places_of_one_index_may_depend_on_a_batch_but_not_on_another_index() -> None:
    def pairs(i: sn.Tensor, j: sn.Tensor, g: sn.Tensor) -> sn.Tensor:
        first = sn.equal(i.reshape(1, 1, 500), sn.arange(90).reshape(90, 1, 1))
        second = sn.equal(j.reshape(90, 1, 500), sn.arange(70).reshape(1, 70, 1))
        return sn.sum(sn.where(sn.logical_and(first, second), g, 0.0), 2)

    i, j, g = chosen(90, 500), chosen(70, 90, 500), normal(500)
    found = sn.compile(pairs)(i, j, g).numpy()
    expected = np.zeros((90, 70))
    np.add.at(expected, (i, j[i, np.arange(500)]), g.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=0, atol=500 * EPSILON)


def test_columns_may_have_indices_of_their_own() -> None:
    def along(x: sn.Tensor, ids: sn.Tensor, g: sn.Tensor) -> sn.Tensor:
        return sn.grad(lambda x: sn.sum(sn.take_along_axis(x, ids, 0, mode="zero") * g))(x)

    ids, g = chosen(900, 200, 6), normal(200, 6)
    found = sn.compile(along)(normal(900, 6), ids, g).numpy()
    expected = np.zeros((900, 6))
    np.add.at(expected, (ids, np.arange(6)), g.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=0, atol=200 * EPSILON)


def test_of_several_updates_at_one_index_the_last_stays() -> None:
    def replaced(x: sn.Tensor, ids: sn.Tensor, rows: sn.Tensor) -> sn.Tensor:
        return sn.scatter(x, ids, rows, mode="zero")

    assert walks(lowered(replaced, spec(4000, 16), spec(900, dtype="i64"), spec(900, 16))) >= 1
    x, ids, rows = normal(4000, 16), chosen(3000, 900), normal(900, 16)
    expected = x.copy()
    for place, row in zip(ids, rows, strict=True):
        expected[place] = row
    np.testing.assert_array_equal(sn.compile(replaced)(x, ids, rows).numpy(), expected)


def test_counts_are_exact() -> None:
    def counts(ids: sn.Tensor) -> sn.Tensor:
        return sn.sum(sn.equal(ids.reshape(1, 5000), sn.arange(1000).reshape(1000, 1)), 1)

    ids = chosen(1000, 5000)
    np.testing.assert_array_equal(sn.compile(counts)(ids).numpy(), np.bincount(ids, minlength=1000))


def test_the_bits_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    ids, values = chosen(50, 6000), normal(6000, 256)
    found = [
        CompiledFunction(gradient, Engine(Config(threads=n, cache_dir=tmp_path / str(n), data_dir=tmp_path)))
        for n in (1, 2)
    ]
    one, two = (f(normal(3000, 256), ids, values).numpy() for f in found)
    np.testing.assert_array_equal(one, two)
