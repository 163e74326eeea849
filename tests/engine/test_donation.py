"""A donated array is updated in place only where that changes nothing but the memory: values are as without donation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.config import Config
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from snell.errors import OutOfRangeError

ROWS = 100
FENCE = 40
Update = Callable[[sn.Tensor, sn.Tensor], sn.Tensor]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder: Path = tmp_path_factory.mktemp("engine")
    return Engine(Config(threads=1, cache_dir=folder / "cache", data_dir=folder / "data"))


def fenced(dtype: str = "f4") -> tuple[np.ndarray, np.ndarray]:
    """An array of rows, and the memory it lies in the middle of."""
    memory = np.full((ROWS + 2 * FENCE, 4), 7, dtype)
    rows = memory[FENCE:-FENCE]
    rows[:] = np.arange(ROWS * 4).reshape(ROWS, 4)
    return rows, memory


def between(low: int, high: int) -> Update:
    return lambda cache, rows: sn.where(
        (sn.arange(ROWS) >= low)[:, None] & (sn.arange(ROWS) < high)[:, None], -1, cache
    )


@pytest.mark.parametrize(
    ("update", "is_in_place"),
    [
        pytest.param(lambda cache, rows: sn.update_rows(cache, rows, 20, axis=0), True, id="other-rows"),
        pytest.param(lambda cache, rows: sn.update_rows(cache, cache[20:50] * 2, 20, axis=0), True, id="own-element"),
        pytest.param(lambda cache, rows: sn.update_rows(cache, cache[19:49] * 2, 20, axis=0), False, id="row-before"),
        pytest.param(lambda cache, rows: sn.update_rows(cache, cache[21:51] * 2, 20, axis=0), False, id="row-after"),
        pytest.param(
            lambda cache, rows: sn.update_rows(cache, cache[20:50] + rows @ sn.ones((4, 4)), 20, axis=0),
            False,
            id="own-element-plus-sum",
        ),
        pytest.param(between(20, 50), True, id="constant-inside"),
        pytest.param(between(-4, 3), False, id="begins-before"),
        pytest.param(between(90, 120), False, id="ends-behind"),
        pytest.param(between(120, 130), False, id="behind"),
        pytest.param(between(50, 20), False, id="empty"),
    ],
)
def test_an_update_gives_what_it_gives_without_donation(update: Update, is_in_place: bool, engine: Engine):
    cache, memory = fenced()
    rows = np.arange(120, dtype=np.float32).reshape(30, 4)
    wanted = CompiledFunction(update, engine)(cache.copy(), rows)
    updated = CompiledFunction(update, engine, donate=("cache",))(cache, rows)
    np.testing.assert_array_equal(updated.numpy(), wanted.numpy())
    assert np.shares_memory(updated.numpy(), memory) == is_in_place
    assert np.all(memory[:FENCE] == 7)
    assert np.all(memory[-FENCE:] == 7)


@pytest.mark.parametrize(
    ("dtype", "through", "is_in_place"),
    [
        ("f32", "f64", True),
        ("bf16", "f32", True),
        ("bf16", "f16", False),
        ("f32", "bf16", False),
        ("i32", "f32", False),
    ],
)
def test_rows_that_a_cast_would_round_are_not_kept_as_they_were(
    dtype: str, through: str, is_in_place: bool, engine: Engine
):
    def update(cache: sn.Tensor) -> sn.Tensor:
        place = sn.arange(ROWS)[:, None]
        return sn.where((place >= 2) & (place < 5), 1, cache.astype(through)).astype(cache.dtype)

    values = sn.dtypes.from_name(dtype).numpy
    cache = (np.arange(ROWS * 4).reshape(ROWS, 4) * 123457.0).astype(values)
    wanted = CompiledFunction(update, engine)(cache.copy())
    updated = CompiledFunction(update, engine, donate=("cache",))(cache)
    np.testing.assert_array_equal(updated.numpy(), wanted.numpy())
    assert np.shares_memory(updated.numpy(), cache) == is_in_place


def test_a_place_known_at_run_time_is_written_in_place_where_it_is_checked(engine: Engine):
    def update(cache: sn.Tensor, rows: sn.Tensor, past: sn.Tensor) -> tuple[sn.Tensor, sn.Tensor]:
        return sn.update_rows(cache, rows, past.shape[0], axis=0), sn.sum(past)

    step = CompiledFunction(update, engine, dims={"past": ("past",), "rows": ("new", None)}, donate=("cache",))
    rows = np.full((30, 4), -1, np.float32)
    for past in (20, 0, 70):
        cache, memory = fenced()
        wanted = cache.copy()
        wanted[past : past + 30] = -1
        updated = step(cache, rows, np.zeros(past, np.float32))[0].numpy()
        np.testing.assert_array_equal(updated, wanted)
        assert np.shares_memory(updated, memory)
    cache, memory = fenced()
    before = memory.copy()
    with pytest.raises(OutOfRangeError, match="101"):
        step(cache, rows, np.zeros(71, np.float32))
    np.testing.assert_array_equal(memory, before)


def test_a_place_known_at_run_time_that_nothing_checks_stays_inside_of_the_array(engine: Engine):
    def update(cache: sn.Tensor, past: sn.Tensor) -> tuple[sn.Tensor, sn.Tensor]:
        place, low = sn.arange(ROWS)[:, None], past.shape[0] - 3
        return sn.where((place >= low) & (place < low + 9), -1, cache), sn.sum(past)

    step = CompiledFunction(update, engine, dims={"past": ("past",)}, donate=("cache",))
    for past in (20, 0, 1, 99, 101, 115):
        cache, memory = fenced()
        wanted = cache.copy()
        wanted[max(past - 3, 0) : past + 6] = -1
        np.testing.assert_array_equal(step(cache, np.zeros(past, np.float32))[0].numpy(), wanted)
        assert np.all(memory[:FENCE] == 7)
        assert np.all(memory[-FENCE:] == 7)
