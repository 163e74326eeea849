"""f.save and sn.load: one file, nothing compiled on loading, damage noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.config import Config
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from snell.engine.saved import read_program
from snell.errors import ConfigError, FileFormatError, ShapeError, UnsupportedError

X = np.arange(12, dtype=np.float32).reshape(3, 4)
W = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Config(threads=2, cache_dir=tmp_path / "cache", data_dir=tmp_path / "data"))


def saved(engine: Engine, folder: Path) -> Path:
    f = CompiledFunction(lambda p, x: {"y": sn.relu(x @ W) * p["scale"], "x": x}, engine)
    f({"scale": 2.0}, X)
    f.save(folder / "f.snell")
    return folder / "f.snell"


def test_a_loaded_function_computes_the_same_without_compiling(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = saved(engine, tmp_path)
    monkeypatch.setattr(Engine, "compile", lambda *_: pytest.fail("compiled"))
    fresh = Engine(Config(threads=2, cache_dir=tmp_path / "other", data_dir=tmp_path / "data"))
    g = read_program(path, fresh)
    out = g({"scale": 3.0}, X)
    np.testing.assert_allclose(np.asarray(out["y"]), np.maximum(X @ W, 0) * 3, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(g(x=X, p={"scale": 1.0})["x"]), X)


def test_a_cut_or_foreign_file_is_refused(engine: Engine, tmp_path: Path):
    path = saved(engine, tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(FileFormatError, match="cut or damaged"):
        read_program(path, engine)
    path.write_bytes(b"something else")
    with pytest.raises(FileFormatError, match="expected a file"):
        read_program(path, engine)


def test_other_arguments_are_refused(engine: Engine, tmp_path: Path):
    g = read_program(saved(engine, tmp_path), engine)
    with pytest.raises(ShapeError, match="expected the arguments"):
        g(X)
    with pytest.raises(ShapeError, match="structure"):
        g([1.0], X)


def test_what_was_never_called_cannot_be_saved_and_a_file_explains_nothing(engine: Engine, tmp_path: Path):
    with pytest.raises(ConfigError, match="called"):
        CompiledFunction(lambda x: x, engine).save(tmp_path / "f.snell")
    with pytest.raises(UnsupportedError, match="explain"):
        read_program(saved(engine, tmp_path), engine).explain()
