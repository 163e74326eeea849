"""The disk cache never gives wrong bytes: not after a crash, a cut file, a full disk or a race."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from tests.runtime.kernels import environment

from snell.errors import CacheError
from snell.runtime.cache import Cache

LIMIT = 1 << 20


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", LIMIT)


def files(cache: Cache) -> list[Path]:
    return [path for path in cache.folder.rglob("*") if path.is_file()]


def test_an_entry_comes_back_and_others_do_not(cache: Cache) -> None:
    cache.put("a", b"one")
    assert (cache.get("a"), cache.get("b")) == (b"one", None)


def test_an_entry_is_made_once(cache: Cache) -> None:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"x"

    assert [cache.get_or_make("k", make) for _ in range(3)] == [b"x"] * 3
    assert len(made) == 1


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:20], lambda d: b"", lambda d: d[:-1] + b"?"])
def test_a_cut_or_damaged_entry_is_dropped_and_made_again(cache: Cache, damage) -> None:
    cache.put("k", b"value" * 100)
    (path,) = files(cache)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("k") is None
    assert not path.exists()
    assert cache.get_or_make("k", lambda: b"again") == b"again"


def test_the_entries_unused_for_longest_are_evicted(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 4000)
    for i in range(3):
        cache.put(str(i), bytes(1000))
        age = time.time() - 1000 + i
        os.utime(cache.path(str(i)), (age, age))
    cache.get("0")
    cache.put("3", bytes(1000))
    assert [cache.get(str(i)) is not None for i in range(4)] == [True, False, True, True]
    assert cache.info().size_bytes <= 4000


WRITER = """
import sys
from pathlib import Path
from snell.runtime.cache import Cache
cache = Cache(Path(sys.argv[1]), 1 << 30)
print("ready", flush=True)
n = 0
while True:
    cache.put(f"key{n % 4}", bytes([n % 251]) * 3_000_000)
    n += 1
"""


def test_kill_in_the_middle_of_writes_leaves_whole_entries_or_none(cache: Cache) -> None:
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(cache.folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.15)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    found = [value for n in range(4) if (value := cache.get(f"key{n}")) is not None]
    assert found
    assert all(len(value) == 3_000_000 and len(set(value)) == 1 for value in found)


def test_what_killed_writers_leave_is_removed_later(cache: Cache) -> None:
    cache.put("k", b"v")
    stale = files(cache)[0].parent / ".writing-dead"
    stale.write_bytes(b"half")
    old = time.time() - 7200
    os.utime(stale, (old, old))
    Cache(cache.folder, LIMIT).put("other", b"v")
    assert not stale.exists()


def _make_same(folder: Path, gate, results) -> None:
    gate.wait()
    results.put(Cache(folder, LIMIT).get_or_make("same", lambda: b"payload" * 1000))


def test_two_processes_may_make_the_same_entry(cache: Cache) -> None:
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(2), context.Queue()
    processes = [context.Process(target=_make_same, args=(cache.folder, gate, results)) for _ in range(2)]
    for process in processes:
        process.start()
    got = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert got == [b"payload" * 1000] * 2
    assert cache.info().entries == 1


def test_a_folder_that_cannot_be_written_warns_once_and_works_without(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    cache = Cache(blocker / "cache", LIMIT)
    with pytest.warns(RuntimeWarning, match="SNELL_CACHE_DIR"):
        assert cache.get_or_make("k", lambda: b"v") == b"v"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get_or_make("k", lambda: b"v") == b"v"


def test_a_full_disk_warns_and_leaves_no_rest(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put("k", b"v")
    assert files(cache) == []


def test_clear_empties_it(cache: Cache) -> None:
    cache.put("a", b"1")
    cache.put("b", b"2")
    assert cache.info().entries == 2
    assert cache.clear() == 2
    assert cache.info().entries == 0


def test_export_and_load_move_the_entries_as_one_file(cache: Cache, tmp_path: Path) -> None:
    cache.put("a", b"1")
    cache.put("b", b"2")
    assert cache.export(tmp_path / "all.zip") == 2
    other = Cache(tmp_path / "other", LIMIT)
    assert other.load(tmp_path / "all.zip") == 2
    assert (other.get("a"), other.get("b")) == (b"1", b"2")


def test_loading_something_else_is_a_cache_error(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"no zip")
    with pytest.raises(CacheError, match="export"):
        cache.load(tmp_path / "bad")
    with pytest.raises(CacheError, match="import"):
        cache.load(tmp_path / "missing")
