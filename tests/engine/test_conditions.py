"""Compiling and running where the world does not cooperate: no cache, damaged caches, signals, crowds, wrong indices."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.config import Config, process_environment
from snell.engine.engine import Engine, unpack
from snell.engine.function import CompiledFunction
from snell.errors import DonatedError, FileFormatError, OutOfRangeError
from snell.runtime import kernels
from snell.runtime.cache import Cache

LIMIT = 2**30
X = np.linspace(-2, 2, 60, dtype=np.float32).reshape(5, 12)
W = np.linspace(1, -1, 36, dtype=np.float32).reshape(12, 3)

linux = pytest.mark.skipif(sys.platform != "linux", reason="uses signals, fork and the affinity mask of Linux")


def function(x, w):
    return sn.softmax(sn.relu(x @ w), axis=-1)


def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    e = np.exp(np.maximum(x.astype(np.float64) @ w, 0))
    return e / e.sum(-1, keepdims=True)


def engine_at(folder: Path) -> Engine:
    return Engine(Config(threads=2, cache_dir=folder, data_dir=folder))


def assert_right(engine: Engine) -> None:
    np.testing.assert_allclose(np.asarray(CompiledFunction(function, engine)(X, W)), expected(X, W), rtol=1e-5)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


PROLOGUE = """
import os, sys, threading, warnings
import numpy as np
import snell as sn
x = np.linspace(-2, 2, 60, dtype=np.float32).reshape(5, 12)
w = np.linspace(1, -1, 36, dtype=np.float32).reshape(12, 3)
e = np.exp(np.maximum(x.astype(np.float64) @ w, 0))
expected = e / e.sum(-1, keepdims=True)
function = sn.compile(lambda x, w: sn.softmax(sn.relu(x @ w), axis=-1))
def right(f=function):
    return bool(np.allclose(np.asarray(f(x, w)), expected, rtol=1e-5))
"""
# The program has several kernels: the signal comes when the first is in the cache and the second is not.
STOPPED_IN_THE_MIDDLE = """
import time
import snell.runtime.kernels as kernels
inner, calls = kernels.compile_object, []
def compile_object(*arguments):
    calls.append(1)
    if len(calls) == 2:
        print("compiling", flush=True)
        time.sleep(30)
    return inner(*arguments)
kernels.compile_object = compile_object
right()
"""


def start(source: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "SNELL_THREADS": "2"}
    return subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + source],
        env=process_environment() | path | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(source: str, environment: dict[str, str]) -> str:
    child = start(source, environment)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    return out.strip()


def test_a_cache_folder_that_is_a_file_costs_one_warning_and_no_result(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    engine = engine_at(blocker)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert_right(engine)
        np.testing.assert_array_equal(CompiledFunction(lambda x: x + 1, engine)(X).numpy(), X + 1)
    assert ["SNELL_CACHE_DIR" in str(warning.message) for warning in caught] == [True]
    assert blocker.read_text() == "not a folder"


def test_a_disk_that_is_full_at_the_rename_costs_one_warning_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("snell.runtime.cache.os.replace", full)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert_right(engine_at(tmp_path))
    assert ["No space left" in str(warning.message) for warning in caught] == [True]
    assert files(tmp_path) == []


@linux
def test_a_disk_that_is_full_at_the_write_costs_one_warning_and_leaves_nothing(tmp_path: Path) -> None:
    source = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(right(), len(caught), "SNELL_CACHE_DIR" in str(caught[0].message))
"""
    assert output_of(source, {"SNELL_CACHE_DIR": str(tmp_path)}) == "True 1 True"
    assert files(tmp_path) == []


@linux
def test_a_home_that_does_not_exist_costs_one_warning_and_no_result(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where the folder of homes would be")
    source = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(right(), len(caught))
"""
    environment = {"HOME": str(tmp_path / "file" / "ada"), "XDG_CACHE_HOME": "", "SNELL_CACHE_DIR": ""}
    assert output_of(source, environment) == "True 1"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size))


def other_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"snell cache 1\n", b"snell cache 9\n", 1))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # The process's threads are compiled once, into the cache of whoever comes first: not into this one.
    assert_right(engine_at(tmp_path_factory.mktemp("threads")))
    folder = tmp_path_factory.mktemp("filled")
    assert_right(engine_at(folder))
    return folder


@pytest.mark.parametrize("damage", [cut, empty, garbage, other_version, Path.unlink])
@pytest.mark.parametrize("kind", ["program", "objects"])
def test_damaged_cache_files_are_made_again(tmp_path: Path, filled: Path, kind: str, damage) -> None:
    folder = tmp_path / "cache"
    shutil.copytree(filled, folder)
    programs = [path for path in files(folder) if is_program(path)]
    assert len(programs) == 1
    assert len(files(folder)) > 1
    for path in files(folder):
        # An object is asked for only where the program is not found.
        if kind == "objects" or path in programs:
            damage(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_right(engine_at(folder))
    assert sorted(path.name for path in files(folder)) == sorted(path.name for path in files(filled))
    assert is_program(folder / programs[0].relative_to(folder))


def is_program(path: Path) -> bool:
    try:
        unpack(path.read_bytes()[len(b"snell cache 1\n") + 32 :])
    except FileFormatError:
        return False
    return True


@pytest.mark.parametrize("content", [b"", b"other bytes", b"\x01" + bytes(7) + b"x"])
def test_a_whole_entry_that_holds_something_else_is_no_program(tmp_path: Path, content: bytes) -> None:
    engine = engine_at(tmp_path)
    engine.cache.put("key", content)
    assert engine.restore("key") is None


def test_an_entry_that_goes_between_listing_and_reading_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "cache", LIMIT)
    cache.put("key", b"value")
    [kept] = files(tmp_path / "cache")
    monkeypatch.setattr(Cache, "_entries", lambda _: iter([kept.with_name("0" * 64), kept]))
    assert cache.info().entries == 1
    assert cache.export(tmp_path / "archive") == 1
    cache.limit_bytes = 1
    cache.limit_bytes = 1
    cache.put("other", b"value")
    assert cache.get("key") is None


@linux
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_stopped_while_it_compiles_leaves_a_cache_that_works(tmp_path: Path, sent: int) -> None:
    environment = {"SNELL_CACHE_DIR": str(tmp_path)}
    child = start(STOPPED_IN_THE_MIDDLE, environment)
    assert child.stdout is not None
    assert child.stdout.readline() == "compiling\n", child.communicate()[1]
    child.send_signal(sent)
    child.communicate(timeout=60)
    assert child.returncode in {-sent, 130}
    assert [path.name for path in files(tmp_path) if path.name.startswith(".")] == []
    assert output_of("warnings.simplefilter('error')\nprint(right())", environment) == "True"


def test_a_call_that_was_interrupted_while_it_compiled_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = kernels.compile_object
    calls: list[int] = []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return inner(*arguments)

    monkeypatch.setattr(kernels, "compile_object", interrupted)
    f = CompiledFunction(function, engine_at(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        f(X, W)
    np.testing.assert_allclose(np.asarray(f(X, W)), expected(X, W), rtol=1e-5)


def test_what_killed_writers_left_an_hour_ago_goes_with_the_next_compilation(tmp_path: Path) -> None:
    engine = engine_at(tmp_path)
    engine.cache.put("key", b"value")
    [entry] = files(tmp_path)
    old, new = entry.with_name(".writing-old"), entry.with_name(".writing-new")
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    assert_right(engine_at(tmp_path))
    assert (old.exists(), new.exists()) == (False, True)


def test_four_processes_compile_one_program_at_once(tmp_path: Path) -> None:
    source = "warnings.simplefilter('error')\nprint(right())"
    children = [start(source, {"SNELL_CACHE_DIR": str(tmp_path)}) for _ in range(4)]
    assert [child.communicate(timeout=120) for child in children] == [("True\n", "")] * 4


def test_eight_threads_compile_and_call_one_function_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []
    inner = Engine.compile

    def counted(self: Engine, *arguments, **options):
        compiled.append(1)
        return inner(self, *arguments, **options)

    monkeypatch.setattr(Engine, "compile", counted)
    f = CompiledFunction(function, engine_at(tmp_path))
    results: list[bool] = []
    barrier = threading.Barrier(8)

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal((5, 12)).astype(np.float32)
        barrier.wait()
        results.extend(np.allclose(np.asarray(f(x, W)), expected(x, W), rtol=1e-5) for _ in range(50))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 400
    assert len(compiled) == 1


@linux
def test_a_forked_child_calls_and_compiles(tmp_path: Path) -> None:
    source = """
right()
child = os.fork()
if child == 0:
    other = sn.compile(lambda x, w: sn.softmax(sn.relu((x + 0) @ w) * 1, axis=-1) + 1)
    os._exit(0 if right() and np.allclose(np.asarray(other(x, w)), expected + 1, rtol=1e-5) else 1)
print(os.waitpid(child, 0)[1], right())
"""
    assert output_of(source, {"SNELL_CACHE_DIR": str(tmp_path)}) == "0 True"


@linux
def test_a_child_that_was_forked_while_another_thread_compiles_compiles_too(tmp_path: Path) -> None:
    source = """
import signal
def compiling():
    for k in range(1, 1000):
        sn.compile(lambda x, w: sn.softmax(sn.relu((x + k) @ w) * k, axis=-1))(x, w)
right()
other = threading.Thread(target=compiling, daemon=True)
other.start()
ends = []
for k in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if right(sn.compile(lambda x, w: sn.softmax(sn.relu(x @ w) - k, axis=-1))) else 1)
    ends.append(os.waitpid(child, 0)[1])
print(ends, other.is_alive(), flush=True)
os._exit(0)
"""
    assert output_of(source, {"SNELL_CACHE_DIR": str(tmp_path)}) == "[0, 0, 0] True"


@linux
def test_one_allowed_processor_is_one_thread(tmp_path: Path) -> None:
    source = """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from snell.engine.default_engine import default_engine
print(right(), default_engine().threads, default_engine().pool().threads, default_engine().pool().started())
"""
    out = output_of(source, {"SNELL_CACHE_DIR": str(tmp_path), "SNELL_THREADS": ""})
    assert out == "True 1 1 0"


def update_and_take(cache, rows, table, i):
    return sn.update_rows(cache, rows, 2, axis=0), sn.take(table, i, axis=0)


@pytest.fixture
def updated(tmp_path: Path) -> CompiledFunction:
    return CompiledFunction(update_and_take, engine_at(tmp_path), donate=("cache",))


ROWS, TABLE = np.ones((2, 3), np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("index", [4, -5])
def test_an_index_out_of_range_leaves_donated_memory_as_it_was(updated: CompiledFunction, index: int) -> None:
    cache = np.zeros((8, 3), np.float32)
    with pytest.raises(IndexError, match=f"index {index} .* extent 4"):
        updated(cache, ROWS, TABLE, np.array([0, index]))
    assert not cache.any()
    result, taken = updated(cache, ROWS, TABLE, np.array([0, 3]))
    np.testing.assert_array_equal(taken.numpy(), TABLE[[0, 3]])
    assert np.shares_memory(result.numpy(), cache)
    assert cache.sum() == 6


def test_an_array_whose_donation_failed_is_still_the_caller_s(tmp_path: Path, updated: CompiledFunction) -> None:
    cache = CompiledFunction(lambda x: x * 0, engine_at(tmp_path))(np.ones((8, 3), np.float32))
    with pytest.raises(OutOfRangeError):
        updated(cache, ROWS, TABLE, np.array([0, 9]))
    assert not cache.numpy().any()
    updated.save(tmp_path / "f.snell")
    loaded = sn.load(tmp_path / "f.snell")
    with pytest.raises(OutOfRangeError):
        loaded(cache, ROWS, TABLE, np.array([0, 9]))
    assert loaded(cache, ROWS, TABLE, np.array([0, 1]))[0].numpy().sum() == 6


def test_an_index_that_follows_from_overwritten_memory_gives_nothing_back(tmp_path: Path) -> None:
    def follow(cache, rows, table):
        new = sn.update_rows(cache, rows, 2, axis=0)
        return new, sn.take(table, sn.sum(new, axis=1).astype("i64"), axis=0)

    engine = engine_at(tmp_path)
    f = CompiledFunction(follow, engine, donate=("cache",))
    cache = CompiledFunction(lambda x: x * 0, engine)(np.ones((8, 3), np.float32))
    with pytest.raises(OutOfRangeError, match="index 15") as raised:
        f(cache, 5 * ROWS, TABLE)
    assert raised.value.overwrote_donated
    with pytest.raises(DonatedError):
        cache.numpy()
