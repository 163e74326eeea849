"""A donated array that must not be written is copied: nothing outside of the program sees a change."""

from __future__ import annotations

import numpy as np
import pytest

import snell as sn


@pytest.fixture(name="update")
def fixture_update() -> sn.CompiledFunction:
    return sn.compile(lambda cache, rows: sn.update_rows(cache, rows[0:3], 2, axis=0), donate=("cache",))


def test_memory_that_is_read_only_stays_as_it_is(update: sn.CompiledFunction) -> None:
    raw = bytes(160)
    result = update(np.frombuffer(raw, np.float32).reshape(10, 4), np.ones((3, 4), np.float32)).numpy()
    assert raw == bytes(160)
    assert result.sum() == 12


def test_an_array_that_another_argument_reads_too_is_read_before_it_changes(update: sn.CompiledFunction) -> None:
    start = np.arange(40, dtype=np.float32).reshape(10, 4)
    expected = start.copy()
    expected[2:5] = start[0:3]
    for _ in range(2):  # the second call finds the addresses of the first
        both = start.copy()
        np.testing.assert_array_equal(update(both, both).numpy(), expected)
        whole = start.copy()
        np.testing.assert_array_equal(update(whole[0:6], whole[0:4]).numpy(), expected[0:6])


def test_arrays_apart_are_updated_in_place(update: sn.CompiledFunction) -> None:
    cache = np.zeros((10, 4), np.float32)
    for _ in range(2):
        assert np.shares_memory(update(cache, np.ones((3, 4), np.float32)).numpy(), cache)
    assert cache.sum() == 12


def test_one_array_donated_twice_gives_two_results() -> None:
    both = sn.compile(
        lambda a, b: (sn.update_rows(a, a[0:1] + 1, 0, axis=0), sn.update_rows(b, b[0:1] + 2, 0, axis=0)),
        donate=("a", "b"),
    )
    x = np.zeros((3, 2), np.float32)
    first, second = both(x, x)
    assert (first.numpy()[0, 0], second.numpy()[0, 0]) == (1, 2)
