"""sn.compile and sn.Graph: structures of arguments, symbolic sizes, donation, checks, caching."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.config import Config
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from snell.engine.graph import Graph
from snell.errors import (
    ConfigError,
    DonatedError,
    DTypeError,
    GraphError,
    OutOfRangeError,
    ShapeError,
    UnsupportedError,
)
from snell.frontend.evaluator import Interpreter

RNG = np.random.default_rng(7)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Config(threads=2, cache_dir=tmp_path / "cache", data_dir=tmp_path / "data"))


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_a_function_of_arrays_gives_arrays(engine: Engine):
    x, w = floats(5, 7), floats(7, 3)
    y = CompiledFunction(lambda x, w: x @ w, engine)(x, w)
    np.testing.assert_allclose(np.asarray(y), x @ w, rtol=1e-5, atol=1e-5)


def test_trees_go_in_and_come_out(engine: Engine):
    f = CompiledFunction(lambda p, x: {"y": p["w"] * x, "rest": (x, [p["b"]])}, engine)
    out = f({"w": floats(3), "b": floats(2)}, floats(3))
    assert sorted(out) == ["rest", "y"]
    assert out["rest"][1][0].shape == (2,)


def test_python_numbers_are_run_time_values(engine: Engine):
    f = CompiledFunction(lambda x, k: x * k, engine)
    x = floats(4)
    np.testing.assert_allclose(np.asarray(f(x, 2)), 2 * x)
    np.testing.assert_allclose(np.asarray(f(x, 3)), 3 * x)
    assert len(f._variants) == 1


def test_static_arguments_are_part_of_the_program(engine: Engine):
    f = CompiledFunction(lambda x, axis: sn.sum(x, axis=axis), engine, static=("axis",))
    x = floats(3, 4)
    assert f(x, 0).shape == (4,)
    assert f(x, 1).shape == (3,)


def test_named_sizes_serve_every_size_with_one_program(engine: Engine):
    f = CompiledFunction(lambda x: sn.softmax(x, axis=-1), engine, dims={"x": ("n", "m")})
    for n, m in ((1, 1), (3, 17), (0, 5), (64, 100)):
        x = floats(n, m)
        e = np.exp(x)
        np.testing.assert_allclose(np.asarray(f(x)), e / e.sum(-1, keepdims=True), rtol=2e-6, atol=1e-7)
    assert len(f._variants) == 1


def test_captured_arrays_are_weights(engine: Engine):
    w = floats(64, 32)
    x = floats(48, 64)
    np.testing.assert_allclose(np.asarray(CompiledFunction(lambda x: x @ w, engine)(x)), x @ w, rtol=1e-4, atol=1e-4)


def test_donating_updates_the_array_in_place(engine: Engine):
    f = CompiledFunction(lambda cache, rows: sn.update_rows(cache, rows, 2, axis=0), engine, donate=("cache",))
    cache = np.zeros((8, 3), np.float32)
    rows = floats(2, 3)
    out = f(cache, rows)
    assert np.asarray(out).base is cache or np.shares_memory(np.asarray(out), cache)
    np.testing.assert_array_equal(cache[2:4], rows)


def test_reading_a_donated_array_is_an_error(engine: Engine):
    f = CompiledFunction(lambda a: a + 1, engine, donate=(0,))
    first = CompiledFunction(lambda a: a * 2, engine)(floats(3))
    f(first)
    with pytest.raises(DonatedError, match="donated"):
        first.numpy()


def test_an_index_out_of_range_is_named(engine: Engine):
    f = CompiledFunction(lambda t, i: sn.take(t, i, axis=0), engine)
    table = floats(10, 4)
    np.testing.assert_array_equal(np.asarray(f(table, np.array([9, 0, 3]))), table[[9, 0, 3]])
    with pytest.raises(OutOfRangeError, match="10"):
        f(table, np.array([1, 10, 2]))
    np.testing.assert_array_equal(np.asarray(f(table, np.array([1, 1, 1]))), table[[1, 1, 1]])


def test_wrong_calls_are_told_what_is_wrong(engine: Engine):
    with pytest.raises(ConfigError, match="no argument"):
        CompiledFunction(lambda x: x, engine, static=("y",))
    with pytest.raises(UnsupportedError, match="strict"):
        CompiledFunction(lambda x: x, engine, precision="quick")
    with pytest.raises(ShapeError):
        CompiledFunction(lambda a, b: a + b, engine)(floats(3), floats(4))
    with pytest.raises(DTypeError):
        CompiledFunction(lambda a: a, engine)(np.array(["text"]))
    with pytest.raises(ConfigError, match="called"):
        CompiledFunction(lambda a: a, engine).explain()


def test_explain_shows_kernels_and_code(engine: Engine):
    f = CompiledFunction(lambda x, w: sn.relu(x @ w), engine)
    f(floats(32, 32), floats(32, 32))
    report = f.explain()
    assert "kernel" in str(report)
    assert "define void" in report.kernels[0].llvm_ir
    assert report.kernels[0].assembly


def test_a_second_engine_compiles_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    x = floats(6, 6)
    first = CompiledFunction(lambda x: x @ x, engine)(x)
    fresh = Engine(engine.config)
    monkeypatch.setattr(Engine, "compile", lambda *_: pytest.fail("compiled again"))
    second = CompiledFunction(lambda x: x @ x, fresh)(x)
    np.testing.assert_array_equal(np.asarray(first), np.asarray(second))


def test_a_damaged_cache_entry_is_rebuilt(engine: Engine):
    x = floats(6, 6)
    first = CompiledFunction(lambda x: x + x, engine)(x)
    for file in engine.config.cache_dir.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    second = CompiledFunction(lambda x: x + x, Engine(engine.config))(x)
    np.testing.assert_array_equal(np.asarray(first), np.asarray(second))


def test_an_explicit_graph_runs_what_was_retrieved(engine: Engine):
    g = Graph(engine, Interpreter())
    a = g.tensor((3, 1)).set([[1.0], [2.0], [3.0]])
    b = g.tensor((1, 4)).set([[1.0, 2.0, 3.0, 4.0]])
    c = a.matmul(b).retrieve()
    g.compile()
    g.execute()
    np.testing.assert_array_equal(c.numpy(), np.outer([1, 2, 3], [1, 2, 3, 4]))
    a.set([[0.0], [0.0], [1.0]])
    g.execute()
    assert c.numpy().sum() == 10


def test_an_explicit_graph_says_what_is_missing(engine: Engine):
    g = Graph(engine, Interpreter())
    a = g.tensor((2,))
    with pytest.raises(GraphError, match="retrieve"):
        g.compile()
    (a + 1).retrieve()
    g.compile()
    with pytest.raises(GraphError, match="no values"):
        g.execute()
    with pytest.raises(ShapeError, match="expected shape"):
        a.set([1.0, 2.0, 3.0])


def test_tensors_made_from_nothing_have_values():
    np.testing.assert_allclose((sn.arange(5) * 2).numpy(), [0, 2, 4, 6, 8])


def test_defaults_that_are_not_given_belong_to_the_function(engine: Engine):
    f = CompiledFunction(sn.sum, engine)
    x = floats(3, 4)
    np.testing.assert_allclose(np.asarray(f(x)), x.sum(), rtol=1e-5)

    def shifted(x, scale=2.0, *, offset=None):
        return x * scale if offset is None else x * scale + offset

    np.testing.assert_allclose(np.asarray(CompiledFunction(shifted, engine)(x, offset=x)), x * 3, rtol=1e-6)


def test_an_operand_that_changes_with_the_rows_of_a_group_is_not_packed_before_them(engine: Engine):
    w = floats(32, 32) * 0.2

    def layers(x: sn.Tensor) -> sn.Tensor:
        for _ in range(2):
            q = x @ w
            x = x + sn.softmax(q @ q.transpose(-1, -2), axis=-1) @ q
            x = x @ w + sn.mean(x, axis=1, keepdims=True)
        return sn.mean(x, axis=1)

    texts, tokens = sn.Dim("texts", max=1000, typical=(32,)), sn.Dim("tokens", max=48, typical=(48,))
    x = floats(3, 20, 32)
    expected = x.astype(np.float64)
    for _ in range(2):
        q = expected @ w
        s = q @ q.transpose(0, 2, 1)
        e = np.exp(s - s.max(-1, keepdims=True))
        expected = expected + e / e.sum(-1, keepdims=True) @ q
        expected = expected @ w + expected.mean(1, keepdims=True)
    result = CompiledFunction(layers, engine, dims={"x": (texts, tokens, None)})(x)
    np.testing.assert_allclose(np.asarray(result), expected.mean(1), rtol=1e-4, atol=1e-4)


def test_sizes_and_tensors_combine_and_multiples_reshape(engine: Engine) -> None:
    n = sn.Dim("n", multiple=8)

    def program(x: sn.Tensor) -> list[sn.Tensor]:
        return [
            n - x, n / x, n < x, n >= x, n == x, (2 * n) // x, n % x, (n // 8) * x,
            x.reshape(n // 8, 8).sum(1), x.reshape(-1, 8).max(0), sn.chunk(x, 4)[2],
            x.reshape(n // 4, 4).reshape(n // 8, 8).reshape(-1),
        ]  # fmt: skip

    f = CompiledFunction(program, engine, dims={"x": (n,)})
    for k in (8, 24):
        x = np.arange(1, k + 1, dtype=np.float32)
        expected = [
            k - x, k / x, k < x, k >= x, k == x, 2 * k // x, k % x, k // 8 * x,
            x.reshape(-1, 8).sum(1), x.reshape(-1, 8).max(0), x.reshape(4, -1)[2], x,
        ]  # fmt: skip
        for actual, wanted in zip(f(x), expected, strict=True):
            np.testing.assert_allclose(np.asarray(actual), wanted, rtol=1e-6)
    with pytest.raises(ShapeError, match="multiple of 8"):
        f(np.ones(12, np.float32))


def test_joint_integer_arrays_out_of_range_raise_from_compiled_code(engine: Engine) -> None:
    f = CompiledFunction(lambda x, i, j: x[i, j], engine)
    x, j = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([0, -1])
    np.testing.assert_array_equal(np.asarray(f(x, np.array([-1, 0]), j)), x[[-1, 0], j])
    with pytest.raises(IndexError, match="index 2 is out of range for an axis of extent 2"):
        f(x, np.array([0, 2]), j)
    with pytest.raises(IndexError, match="index -4 is out of range for an axis of extent 3"):
        f(x, np.array([0, 1]), np.array([0, -4]))


def test_an_axis_that_is_no_dim_may_have_another_extent_in_the_next_call() -> None:
    total = sn.compile(lambda x, w: sn.sum(x, 0) + w, dims={"x": ("n", None)})
    for count, width in ((3, 5), (7, 5), (2, 4)):
        x, w = np.ones((count, width), np.float32), np.ones((width,), np.float32)
        np.testing.assert_array_equal(np.asarray(total(x, w)), np.full(width, count + 1))
