"""Compiled sorting equals NumPy's stable sort, and its program does not grow with the extent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.config import Config
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction

RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder: Path = tmp_path_factory.mktemp("engine")
    return Engine(Config(threads=2, cache_dir=folder / "cache", data_dir=folder / "data"))


@pytest.mark.parametrize("extent", [1, 2, 10, 300])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_values_and_indices_are_those_of_a_stable_sort(extent: int, dtype: str, engine: Engine):
    x = RNG.integers(-20, 20, (3, extent)).astype(dtype)
    if dtype == "f4" and extent > 2:
        x[1, 1::3] = np.nan
        x[2, ::4] = np.inf
    values, indices = CompiledFunction(lambda x: (sn.sort(x), sn.argsort(x)), engine)(x)
    np.testing.assert_array_equal(np.asarray(values), np.sort(x, -1))
    np.testing.assert_array_equal(np.asarray(indices), np.argsort(x, -1, kind="stable"))


def test_topk_takes_the_first_among_equals(engine: Engine):
    x = RNG.integers(0, 9, (2, 70)).astype(np.float32)
    values, indices = CompiledFunction(lambda x: sn.topk(x, 5), engine)(x)
    order = np.argsort(-x, -1, kind="stable")[:, :5]
    np.testing.assert_array_equal(np.asarray(indices), order)
    np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(x, order, -1))


def test_a_longer_sort_has_as_many_kernels(engine: Engine):
    counts: list[int] = []
    for extent in (20, 5000):
        f = CompiledFunction(lambda x: sn.sort(x), engine)
        x = RNG.standard_normal((1, extent)).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(f(x)), np.sort(x, -1))
        counts.append(len(f.explain().kernels))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("count", [0, 1, 4, 50])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u1"])
def test_few_elements_are_selected_as_a_stable_sort_orders_them(
    dtype: str, largest: bool, count: int, engine: Engine
) -> None:
    x = RNG.integers(0, 60, (2, 3000)).astype(dtype)
    if dtype.startswith("f"):
        x[0, ::700], x[0, 1::800], x[1, ::900], x[1, 5::600] = np.nan, -0.0, np.inf, -np.inf
    values, indices = CompiledFunction(lambda x: sn.topk(x, count, largest=largest), engine)(x)
    wide = x.astype(np.float64)
    rank = np.where(np.isnan(wide), np.inf, wide)  # NaN is the greatest
    keys = (-rank if largest else rank, np.isnan(wide) ^ largest)
    order = np.stack([np.lexsort((np.arange(3000), keys[1][row], keys[0][row])) for row in (0, 1)])[:, :count]
    np.testing.assert_array_equal(np.asarray(indices), order)
    np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(x, order, -1))


def test_a_vocabulary_of_any_length_has_its_best_selected(engine: Engine) -> None:
    x = RNG.standard_normal((1, 50_257)).astype(np.float32)
    values, indices = CompiledFunction(lambda x: sn.topk(x, 40), engine)(x)
    order = np.argsort(-x, -1, kind="stable")[:, :40]
    np.testing.assert_array_equal(np.asarray(indices), order)
    np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(x, order, -1))
