"""Compiling and running under bad conditions: no cache, damaged caches, signals, many processes and threads."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.config import Config, process_environment
from snell.dtypes import f32
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from snell.errors import ConfigError, DTypeError, OutOfRangeError, ShapeError
from snell.frontend import TensorSpec, trace

X = np.arange(12, dtype=np.float32).reshape(3, 4)
CHILD = """
import numpy as np, snell as sn
x = np.arange(12, dtype=np.float32).reshape(3, 4)
f = sn.compile(lambda x: sn.softmax(x @ x.T, axis=-1))
{before}
y = np.asarray(f(x))
s = np.exp(x @ x.T - (x @ x.T).max(-1, keepdims=True))
np.testing.assert_allclose(y, s / s.sum(-1, keepdims=True), rtol=1e-4)
print("right")
"""


def engine_in(cache: Path) -> Engine:
    return Engine(Config(threads=2, cache_dir=cache, data_dir=cache.parent / "data"))


def answer(engine: Engine) -> np.ndarray:
    """Two different programs of one engine: the second must not repeat the first one's warning."""
    doubled = CompiledFunction(lambda x: sn.exp(x * 0.0) + x, engine)(X)
    return np.asarray(CompiledFunction(lambda x: x @ x.T, engine)(np.asarray(doubled) - 1))


def assert_right_with_one_warning(cache: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.testing.assert_allclose(answer(engine_in(cache)), X @ X.T, rtol=1e-5)
    assert len(caught) == 1
    assert "SNELL_CACHE_DIR" in str(caught[0].message)


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def child_environment(cache: Path, **more: str) -> dict[str, str]:
    paths = {"PYTHONPATH": ":".join(filter(None, sys.path)), "SNELL_CACHE_DIR": str(cache)}
    return process_environment() | paths | more


def start(cache: Path, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD.format(before=before)]
    environment = child_environment(cache)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_right(child: subprocess.Popen[str]) -> None:
    output, errors = child.communicate(timeout=120)
    assert (child.returncode, output, errors) == (0, "right\n", "")


def cache_files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def test_a_full_disk_at_the_rename_costs_one_warning_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snell.runtime.cache.os.replace", full_disk)
    assert_right_with_one_warning(tmp_path / "cache")
    assert cache_files(tmp_path / "cache") == []


def test_a_full_disk_at_the_write_costs_one_warning_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snell.runtime.cache.os.fdopen", full_disk)
    assert_right_with_one_warning(tmp_path / "cache")
    assert cache_files(tmp_path / "cache") == []


def test_a_file_in_place_of_the_cache_folder_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert_right_with_one_warning(tmp_path / "cache")


def test_a_file_in_place_of_the_home_folder_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    assert_right_with_one_warning(tmp_path / "home/.cache/snell")


def test_a_user_without_a_home_gets_a_cache_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("snell.config.Path.home", homeless)
    assert_right_with_one_warning(Config.from_environment({}, platform="linux").cache_dir)


def test_the_folder_of_an_unknown_user_is_an_error_that_names_its_variable() -> None:
    with pytest.raises(ConfigError, match="SNELL_CACHE_DIR"):
        Config.from_environment({"SNELL_CACHE_DIR": "~nobody_of_that_name/cache"})


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: os.urandom(300), lambda b: b"snell cache 0\n" + b[14:]],
    ids=["cut in half", "emptied", "garbage", "another version"],
)
def test_a_damaged_cache_is_made_again_silently(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    answer(engine_in(tmp_path / "cache"))
    whole = sorted(cache_files(tmp_path / "cache"))
    for path in whole:
        path.write_bytes(damage(path.read_bytes()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(answer(engine_in(tmp_path / "cache")), X @ X.T, rtol=1e-5)
    assert sorted(cache_files(tmp_path / "cache")) == whole


def test_a_whole_entry_whose_content_is_no_program_is_made_again(tmp_path: Path) -> None:
    engine = engine_in(tmp_path / "cache")
    answer(engine)
    for key in engine.programs:
        engine.cache.put(key, b"")
    np.testing.assert_allclose(answer(engine_in(tmp_path / "cache")), X @ X.T, rtol=1e-5)


def test_an_entry_that_vanishes_between_listing_and_reading_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = engine_in(tmp_path / "cache").cache
    cache.put("kept", b"1")
    listed = [*cache._entries(), cache.folder / "ab" / ("ab" * 32)]
    monkeypatch.setattr("snell.runtime.cache.Cache._entries", lambda self: iter(listed))
    assert cache.info().entries == 1
    assert cache.export(tmp_path / "export") == 1


def test_ctrl_c_while_compiling_is_a_keyboard_interrupt_and_the_next_process_works(tmp_path: Path) -> None:
    child = start(tmp_path / "cache", "import os, signal, threading; print('ready', flush=True)")
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert_right(start(tmp_path / "cache"))


def test_a_process_killed_while_it_compiles_leaves_a_cache_that_works(tmp_path: Path) -> None:
    child = start(tmp_path / "cache", "print('ready', flush=True)")
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.2)
    child.kill()
    child.communicate(timeout=60)
    assert_right(start(tmp_path / "cache"))


def test_the_next_writer_removes_temporary_files_of_dead_ones(tmp_path: Path) -> None:
    left = tmp_path / "cache/objects/ab/.writing-left"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    os.utime(left, (time.time() - 7200,) * 2)
    answer(engine_in(tmp_path / "cache"))
    assert not left.exists()


def test_four_processes_compile_the_same_program_at_once(tmp_path: Path) -> None:
    for child in [start(tmp_path / "cache") for _ in range(4)]:
        assert_right(child)


def test_eight_threads_share_one_compilation_and_get_right_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_in(tmp_path / "cache")
    compiled: list[object] = []
    compile_once = Engine.compile
    monkeypatch.setattr(Engine, "compile", lambda *args: compiled.append(args) or compile_once(*args))
    function = CompiledFunction(lambda x: x @ x.T, engine)
    results: list[np.ndarray] = []

    def call(k: int) -> None:
        results.extend(np.asarray(function(X + k)) - (X + k) @ (X + k).T for _ in range(20))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1
    assert len(results) == 160
    assert max(float(abs(r).max()) for r in results) < 1e-3


def test_progress_counts_every_kernel_once_up_to_the_total(tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    graph = trace(lambda x: sn.softmax(x @ x.T, axis=-1), [TensorSpec((3, 4), f32)], ("x",)).graph
    engine_in(tmp_path / "cache").prepare(graph, on_progress=lambda done, total: reports.append((done, total)))
    total = reports[-1][1]
    assert total > 0
    assert reports == [(0, 0), *((done, total) for done in range(1, total + 1))]


FORKS = """
f(x)
pid = __import__("os").fork()
if pid == 0:
    np.testing.assert_allclose(f(x), f(x))
    np.testing.assert_allclose(sn.compile(lambda x: x * 3)(x), x * 3)
    __import__("os")._exit(7)
assert __import__("os").waitstatus_to_exitcode(__import__("os").waitpid(pid, 0)[1]) == 7
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_runs_and_compiles(tmp_path: Path) -> None:
    child = start(tmp_path / "cache", "import warnings; warnings.simplefilter('ignore')" + FORKS)
    assert_right(child)


@pytest.mark.skipif(sys.platform != "linux", reason="affinity masks are Linux's")
def test_one_allowed_processor_means_one_thread(tmp_path: Path) -> None:
    one = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    threads = "from snell.engine.default_engine import default_engine\nassert default_engine().pool().threads == 1"
    assert_right(start(tmp_path / "cache", one + threads))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.ones((5, 4), np.float32), ShapeError),
        (np.ones(3, np.float32), ShapeError),
        (np.array([None, 1], object), DTypeError),
        (np.array(["text"]), DTypeError),
        (np.ones((4, 4), np.complex64), DTypeError),
    ],
)
def test_a_wrong_argument_is_a_typed_error_and_the_function_still_works(
    tmp_path: Path, value: object, error: type[Exception]
) -> None:
    function = CompiledFunction(lambda x, w: x @ w, engine_in(tmp_path / "cache"))
    with pytest.raises(error):
        function(X, value)
    np.testing.assert_allclose(np.asarray(function(X, X.T)), X @ X.T)


def test_an_index_out_of_range_names_it_leaves_buffers_and_the_function_works_again(tmp_path: Path) -> None:
    function = CompiledFunction(
        lambda x, i: (x + 1, sn.take(x, i, axis=0)), engine_in(tmp_path / "cache"), donate=("x",)
    )
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(OutOfRangeError, match="9"):
        function(x, np.array([1, 9]))
    np.testing.assert_array_equal(x, np.arange(4))
    np.testing.assert_array_equal(np.asarray(function(x.copy(), np.array([1, 3]))[1]), [1, 3])
