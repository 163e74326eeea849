"""A data loader gives each row once an epoch, in an order that its key and the epoch decide, and goes on anywhere."""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snell as sn
from snell.errors import ConfigError, DTypeError, ShapeError
from snell.train.data import DataLoader, Files, Position
from snell.train.data.keys import as_key, folded, permutation


def rows_of(loader: DataLoader) -> list[int]:
    return [int(row) for batch in loader for row in batch]


def test_rows_come_in_order_without_a_key_and_the_last_batch_is_shorter() -> None:
    loader = DataLoader(np.arange(10), 4)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(loader) == 3


def test_drop_last_leaves_the_shorter_batch_out() -> None:
    loader = DataLoader(np.arange(10), 4, drop_last=True)
    assert [len(batch) for batch in loader] == [4, 4]
    assert len(loader) == 2


def test_a_key_shuffles_every_epoch_anew_and_the_same_key_alike() -> None:
    loader = DataLoader(np.arange(50), 8, key=7)
    first, second = rows_of(loader), rows_of(loader)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    again = DataLoader(np.arange(50), 16, key=np.asarray(sn.random.key(7)))
    assert rows_of(again) == first


def test_the_order_is_that_of_the_programs_own_permutation() -> None:
    key = as_key(123456789012)
    in_a_program = np.asarray(sn.random.key(123456789012))
    assert list(key) == in_a_program.tolist()
    for number in (0, 5, 1 << 40):
        assert list(folded(key, number)) == np.asarray(sn.random.fold_in(in_a_program, number)).tolist()
    wanted = np.asarray(sn.random.permutation(in_a_program, 33))
    assert permutation(key, 33).tolist() == wanted.tolist()


@pytest.mark.parametrize("key", [None, 3])
@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_loader_goes_on_from_any_position_of_another(key: int | None, prefetch: int) -> None:
    data = (np.arange(23), np.arange(23) * 2.0)
    whole = DataLoader(data, 5, key=key, prefetch=prefetch)
    wanted: list[Any] = []
    positions: list[Position] = []
    for _ in range(2):
        for batch in whole:
            wanted.append(batch[0].tolist())
            positions.append(whole.position)
    for taken, position in enumerate(positions, start=1):
        resumed = DataLoader(data, 5, key=key, prefetch=prefetch)
        resumed.seek(position)
        found = [batch[0].tolist() for _ in range(2) for batch in resumed]
        assert found[: len(wanted) - taken] == wanted[taken:]


def test_a_position_after_the_last_batch_is_the_next_epoch() -> None:
    loader = DataLoader(np.arange(6), 3, key=1)
    iterator = iter(loader)
    next(iterator)
    next(iterator)
    assert loader.position == {"epoch": 1, "batch": 0, "key": [1, 0]}


def test_a_position_of_another_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="belongs to the key"):
        DataLoader(np.arange(3), 1, key=1).seek(DataLoader(np.arange(3), 1, key=2).position)


def test_an_iterable_is_walked_over_once_an_epoch_and_stacked() -> None:
    loader = DataLoader([{"x": [1.0, 2.0], "y": 3}, {"x": [4.0, 5.0], "y": 6}, {"x": [7.0, 8.0], "y": 9}], 2)
    for _ in range(2):
        first, last = list(loader)
        assert first["x"][0].dtype == np.float32
        assert first["y"].tolist() == [3, 6]
        assert last["y"].tolist() == [9]


def test_an_iterator_and_a_shuffled_iterable_are_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="begun again"):
        DataLoader(iter([1, 2]), 1)
    with pytest.raises(ConfigError, match="cannot shuffle"):
        DataLoader([1, 2], 1, key=0)


def test_files_are_shuffled_among_and_within_each_other_and_read_one_at_a_time(tmp_path: Path) -> None:
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.arange(5) + 10 * number)
    read: list[str] = []

    def load(path: Path) -> np.ndarray:
        read.append(path.stem)
        return np.load(path)

    loader = DataLoader(Files(sorted(tmp_path.glob("*.npy")), load), 4, key=2, prefetch=0)
    iterator = iter(loader)
    next(iterator)
    assert len(read) == 1
    rest = [int(row) for batch in iterator for row in batch]
    assert len(rest) == 11
    epochs = [rows_of(loader), rows_of(loader)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == [*range(5), *range(10, 15), *range(20, 25)]
    assert epochs[0] != epochs[1]


def test_no_more_batches_are_made_ahead_than_asked_for() -> None:
    made: list[int] = []
    loader = DataLoader(np.arange(100), 1, prefetch=3, transform=lambda batch: made.append(1) or batch)
    iterator = iter(loader)
    next(iterator)
    deadline = time.monotonic() + 5
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(made) == 4


def test_an_error_in_the_background_surfaces_in_the_loop_with_its_trace() -> None:
    def breaks_at_two(batch: np.ndarray) -> np.ndarray:
        if batch[0] == 2:
            raise RuntimeError("row 2 is broken")
        return batch

    batches = iter(DataLoader(np.arange(5), 1, transform=breaks_at_two))
    assert [int(next(batches)[0]) for _ in range(2)] == [0, 1]
    with pytest.raises(RuntimeError, match="row 2 is broken") as caught:
        next(batches)
    assert "breaks_at_two" in "".join(traceback.format_exception(caught.value))


def test_leaving_the_loop_ends_the_thread() -> None:
    def threads() -> int:
        return sum(thread.name == "snell-data" for thread in threading.enumerate())

    before = threads()
    for _ in DataLoader(np.arange(100), 1):
        break
    gc.collect()
    assert threads() == before


def test_an_endless_stream_works_with_bounded_memory() -> None:
    class Endless:
        def __iter__(self) -> Iterator[int]:
            return iter(int, 1)

    iterator = iter(DataLoader(Endless(), 4, prefetch=2))
    assert [next(iterator).tolist() for _ in range(3)] == [[0] * 4] * 3


def test_memory_mapped_arrays_are_gathered_from(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(20.0).reshape(10, 2))
    loader = DataLoader(np.load(tmp_path / "x.npy", mmap_mode="r"), 3, key=0)
    assert sorted(row[0] for batch in loader for row in batch) == list(range(0, 20, 2))


def test_arrays_of_different_lengths_are_refused_by_name() -> None:
    with pytest.raises(ShapeError, match=r"x: 3, y: 4"):
        DataLoader({"x": np.zeros(3), "y": np.zeros(4)}, 1)


def test_rows_of_different_shapes_are_refused_by_name() -> None:
    with pytest.raises(ShapeError, match=r"leaf x: .*\(2,\), \(3,\)"):
        list(DataLoader([{"x": np.zeros(2)}, {"x": np.zeros(3)}], 2))


def test_a_key_that_is_none_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"u32 \(2,\)"):
        DataLoader(np.arange(3), 1, key=np.zeros(3))
