"""Tuning: what is found is recorded at once, used by the next compilation, and survives an interrupt or a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.search.tasks import THREADS, spec, tasks

import snell as sn
from snell.codegen.host import host_target
from snell.config import Config
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from snell.errors import ConfigError
from snell.loops.plan import Plan, StageChoice
from snell.search.records import Record, Records
from snell.search.tuning import Moment, tune

RNG = np.random.default_rng(3)


def engine(folder: Path, search: object = "off") -> Engine:
    return Engine(Config(threads=2, cache_dir=folder, data_dir=folder, search=search))  # type: ignore[arg-type]


def test_a_search_tries_candidates_and_tells_its_curve(tmp_path: Path) -> None:
    told: list[Moment] = []
    records = Records(tmp_path, 1 << 20)

    def tell(moment: Moment) -> None:
        told.append(moment)
        if moment.candidates >= 6:
            raise KeyboardInterrupt

    found = tune(
        tasks(lambda a, b: a @ b, spec(64, 64), spec(64, 64)), host_target(), THREADS, records,
        budget=120.0, prunes=True, progress=tell,
    )  # fmt: skip
    (kernel,) = found.kernels
    assert kernel.candidates >= 5
    assert not kernel.rejected
    assert kernel.writes == ("out0",)
    assert kernel.does == "64×64 f32: sums of 64 products"
    assert found.curve == tuple(told)
    assert [m.ratio for m in told] == sorted((m.ratio for m in told), reverse=True)
    record = records.get(kernel.key)
    assert (record is None) == (kernel.ratio == 1.0)


def test_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    def stop(moment: Moment) -> None:
        if moment.candidates == 4:
            raise KeyboardInterrupt

    found = tune(
        tasks(lambda a, b: a @ b, spec(64, 64), spec(64, 64)), host_target(), THREADS, Records(tmp_path, 1 << 20),
        budget=60.0, prunes=True, progress=stop,
    )  # fmt: skip
    assert found.interrupted
    assert found.kernels[0].candidates == 4


def test_a_record_changes_the_next_compilation_and_not_its_results(tmp_path: Path) -> None:
    a, b = RNG.standard_normal((70, 90), np.float32), RNG.standard_normal((90, 50), np.float32)
    made = engine(tmp_path)
    before = CompiledFunction(lambda a, b: a @ b, made)
    expected = np.asarray(before(a, b))
    text = before.explain().kernels[0].loops
    graph = sn.frontend.trace(lambda a, b: a @ b, (spec(70, 90), spec(90, 50)), ("a", "b")).graph
    (kernel,) = made.tune(graph, budget=0.5).kernels
    made.records.put(kernel.key, Record(Plan((StageChoice(rows=8, columns=16),)), 0.01, 1e-6, 1))
    after = CompiledFunction(lambda a, b: a @ b, engine(tmp_path))
    np.testing.assert_allclose(np.asarray(after(a, b)), expected, rtol=1e-4, atol=1e-4)
    assert after.explain().kernels[0].loops != text


def test_a_program_is_searched_once_for_its_budget(tmp_path: Path) -> None:
    x = RNG.standard_normal((50, 60), np.float32)
    begin = time.monotonic()
    CompiledFunction(lambda x: sn.softmax(x), engine(tmp_path), search=1.5)(x)
    assert time.monotonic() - begin > 1.2
    begin = time.monotonic()
    CompiledFunction(lambda x: sn.softmax(x), engine(tmp_path), search=1.5)(x)
    assert time.monotonic() - begin < 1.0


@pytest.mark.parametrize("budget", [0, -1, "often", True, float("nan")])
def test_a_budget_that_is_no_time_is_an_error(tmp_path: Path, budget: object) -> None:
    with pytest.raises(ConfigError, match="search: expected"):
        CompiledFunction(lambda x: x, engine(tmp_path), search=budget)  # type: ignore[arg-type]


_SEARCH = """
import numpy as np, snell as sn
from snell.config import Config
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from pathlib import Path
f = CompiledFunction(lambda a, b: a @ b, Engine(Config(threads=2, cache_dir=Path({folder!r}), data_dir=Path("."))), search=60)
f(np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
def test_a_kill_in_the_middle_of_a_search_leaves_whole_records(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _SEARCH.format(folder=str(tmp_path))])
    time.sleep(5.0)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    x = RNG.standard_normal((64, 64), np.float32)
    result = CompiledFunction(lambda a, b: a @ b, engine(tmp_path))(x, x)
    np.testing.assert_allclose(np.asarray(result), x @ x, rtol=1e-4, atol=1e-4)
