"""Compiled scans: equal to the interpreter and to a loop in NumPy, for every length, from every thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snell as sn
from snell.config import Config
from snell.engine.engine import Engine, pack, unpack
from snell.engine.function import CompiledFunction
from snell.errors import OutOfRangeError
from snell.frontend import TensorSpec, trace
from snell.graph.interpret import interpret
from snell.graph.node import Graph
from snell.runtime.executable import Executable
from snell.runtime.program import Role

RNG = np.random.default_rng(5)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Config(threads=2, cache_dir=tmp_path / "cache", data_dir=tmp_path / "data"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("engine")
    return Engine(Config(threads=2, cache_dir=folder / "cache", data_dir=folder / "data"))


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def cell(p: dict[str, Any], h: Any, x: Any) -> Any:
    return sn.tanh(x @ p["w"] + h @ p["u"] + p["b"])


def parameters(n: int, m: int) -> dict[str, np.ndarray]:
    return {"w": floats(n, m) / 4, "u": floats(m, m) / 8, "b": floats(m)}


def numpy_cell(p: dict[str, np.ndarray], h: np.ndarray, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.zeros((len(xs), *h.shape), np.float32)
    for t, x in enumerate(xs):
        h = rows[t] = np.tanh(x @ p["w"] + h @ p["u"] + p["b"])
    return h, rows


def unrolled(p: dict[str, Any], h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        after = cell(p, h, x)
        return after, after

    return sn.scan(step, h, xs)


@pytest.mark.parametrize("length", [0, 1, 2, 7, 64])
def test_a_recurrent_cell_is_a_loop_in_numpy(length: int, shared: Engine):
    p, h, xs = parameters(12, 20), floats(6, 20), floats(length, 6, 12)
    last, rows = CompiledFunction(unrolled, shared)(p, h, xs)
    expected, expected_rows = numpy_cell(p, h, xs)
    np.testing.assert_allclose(np.asarray(last), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(rows), expected_rows, rtol=1e-4, atol=1e-5)


def test_one_program_serves_every_length(engine: Engine):
    f = CompiledFunction(unrolled, engine, dims={"xs": ("time", None, None)})
    p, h = parameters(5, 9), floats(3, 9)
    for length in (4, 0, 1, 2, 33):
        xs = floats(length, 3, 5)
        last, rows = f(p, h, xs)
        expected, expected_rows = numpy_cell(p, h, xs)
        np.testing.assert_allclose(np.asarray(last), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(rows), expected_rows, rtol=1e-4, atol=1e-5)
    assert len(engine.programs) == 1


def test_a_longer_scan_has_as_many_kernels(shared: Engine):
    counts: list[int] = []
    for length in (2, 500):
        f = CompiledFunction(unrolled, shared)
        f(parameters(4, 8), floats(8), floats(length, 4))
        counts.append(len(f.explain().kernels))
    assert counts[0] == counts[1] <= 4


def test_weights_that_the_body_closes_over_are_bound_once(engine: Engine):
    p, h, xs = parameters(12, 32), floats(16, 32), floats(9, 16, 12)
    f = CompiledFunction(lambda h, xs: unrolled(p, h, xs), engine)
    np.testing.assert_allclose(np.asarray(f(h, xs)[0]), numpy_cell(p, h, xs)[0], rtol=1e-4, atol=1e-5)
    (prepared,) = engine.programs.values()
    assert len(prepared.frozen) == 3


def test_cumulative_products_agree_with_numpy(engine: Engine):
    x = floats(40, 7) + 1
    f = CompiledFunction(lambda x: sn.scan(lambda c, row: (c * row, c * row), sn.ones((7,)), x)[1], engine)
    np.testing.assert_allclose(np.asarray(f(x)), np.cumprod(x, 0), rtol=1e-5)


def test_fibonacci_numbers_are_exact(engine: Engine):
    f = CompiledFunction(lambda a, b: sn.scan(lambda c, _: ((c[1], c[0] + c[1]), c[0]), (a, b), length=90), engine)
    (last, _), rows = f(np.int64(0), np.int64(1))
    assert int(last) == 2880067194370816120
    assert np.asarray(rows)[:7].tolist() == [0, 1, 1, 2, 3, 5, 8]


def test_carries_that_change_places_each_step_do_not_meet(engine: Engine):
    f = CompiledFunction(
        lambda a, b, n: sn.scan(lambda c, _: ((c[1], c[0]), c[0]), (a, b), length=n), engine, static=("n",)
    )
    a, b = floats(5), floats(5)
    for n in (1, 2, 3, 4):
        (x, y), rows = f(a, b, n)
        np.testing.assert_array_equal(np.asarray(x), b if n % 2 else a)
        np.testing.assert_array_equal(np.asarray(y), a if n % 2 else b)
        np.testing.assert_array_equal(np.asarray(rows)[-1], a if n % 2 else b)


def test_scans_nest(engine: Engine):
    def outer(total: Any, row: Any) -> Any:
        inner, seen = sn.scan(lambda c, e: (c * e + total, c + total), sn.zeros(()), row)
        return total + inner, (inner, seen)

    f = CompiledFunction(lambda x: sn.scan(outer, 1.0, x), engine, dims={"x": ("n", "m")})
    for n, m in ((4, 3), (0, 3), (3, 0), (1, 1), (6, 5)):
        x = floats(n, m)
        total, (inners, seen) = f(x)
        expected, rows, all_seen = 1.0, [], np.zeros((n, m))
        for i, row in enumerate(x.astype(np.float64)):
            c = 0.0
            for j, e in enumerate(row):
                all_seen[i, j], c = c + expected, c * e + expected
            rows.append(c)
            expected += c
        np.testing.assert_allclose(np.asarray(total), expected, rtol=1e-4)
        np.testing.assert_allclose(np.asarray(inners), rows, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(seen), all_seen, rtol=1e-4, atol=1e-5)


def test_a_scan_reads_the_results_of_another(engine: Engine):
    def program(x: Any) -> Any:
        total, sums = sn.scan(lambda c, r: (c + r, c + r), 0.0, x)
        _, scaled = sn.scan(lambda c, r: (c, r / c), total, sums)
        return scaled * 2, sums

    x = np.abs(floats(17)) + 0.1
    scaled, sums = CompiledFunction(program, engine)(x)
    np.testing.assert_allclose(np.asarray(sums), np.cumsum(x), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(scaled), 2 * np.cumsum(x) / x.sum(), rtol=1e-5)


def test_the_initial_carry_is_not_written(engine: Engine):
    h, xs = floats(4), floats(6, 4)
    before = h.copy()
    f = CompiledFunction(lambda h, xs: sn.scan(lambda c, x: (c * 0.5 + x, None), h, xs)[0], engine)
    first, second = np.asarray(f(h, xs)).copy(), np.asarray(f(h, xs))
    np.testing.assert_array_equal(h, before)
    np.testing.assert_array_equal(first, second)


def test_a_donated_cache_that_a_scan_reads_keeps_its_rows_until_then(engine: Engine):
    def program(cache: Any, row: Any) -> Any:
        total, _ = sn.scan(lambda c, r: (c + r, None), sn.zeros((3,)), cache)
        return sn.update_rows(cache, row, 1), total

    cache, row = floats(4, 3), floats(1, 3)
    expected = cache.sum(0)
    given = sn.Array(cache.copy())
    updated, total = CompiledFunction(program, engine, donate=("cache",))(given, row)
    np.testing.assert_allclose(np.asarray(total), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(updated)[1], row[0])


def test_an_index_out_of_range_in_a_step_raises_with_its_value(engine: Engine):
    f = CompiledFunction(lambda t, k: sn.scan(lambda c, i: (c + sn.take(t, i), None), 0.0, k)[0], engine)
    table = floats(4)
    np.testing.assert_allclose(np.asarray(f(table, np.array([3, 0, 1]))), table[[3, 0, 1]].sum(), rtol=1e-5)
    with pytest.raises(OutOfRangeError, match="77"):
        f(table, np.array([3, 77, 1]))
    with pytest.raises(OutOfRangeError, match="-9"):
        f(table, np.array([-9, 77, 1]))


def test_an_index_out_of_range_in_an_inner_step_raises(engine: Engine):
    def outer(c: Any, ks: Any) -> Any:
        inner, _ = sn.scan(lambda d, k: (d + sn.take(c, k), None), 0.0, ks)
        return c + inner, None

    f = CompiledFunction(lambda c, ks: sn.scan(outer, c, ks)[0], engine)
    with pytest.raises(OutOfRangeError, match="5"):
        f(floats(3), np.array([[0, 1], [2, 5]]))


def test_a_saved_scan_loads(engine: Engine, tmp_path: Path):
    p, h, xs = parameters(4, 8), floats(2, 8), floats(5, 2, 4)
    f = CompiledFunction(lambda h, xs: unrolled(p, h, xs), engine, dims={"xs": ("time", None, None)})
    f(h, xs)
    f.save(tmp_path / "cell.snell")
    loaded = sn.load(tmp_path / "cell.snell")
    for length in (0, 5, 8):
        xs = floats(length, 2, 4)
        np.testing.assert_allclose(np.asarray(loaded(h, xs)[0]), numpy_cell(p, h, xs)[0], rtol=1e-4, atol=1e-5)


def test_a_program_with_a_scan_goes_to_bytes_and_back(engine: Engine):
    f = CompiledFunction(lambda x: sn.scan(lambda c, r: (c + sn.take(r, 0), r), 0.0, x), engine)
    f(floats(3, 2))
    (prepared,) = engine.programs.values()
    assert unpack(pack(prepared)).assembled == prepared.assembled


def test_equal_bodies_are_found_in_the_cache(engine: Engine):
    for _ in range(2):
        CompiledFunction(lambda x: sn.scan(lambda c, r: (c + r, c), 0.0, x), engine)(floats(6))
    assert len(engine.programs) == 1
    CompiledFunction(lambda x: sn.scan(lambda c, r: (c - r, c), 0.0, x), engine)(floats(6))
    assert len(engine.programs) == 2


def test_many_threads_run_one_scan(engine: Engine):
    f = CompiledFunction(unrolled, engine)
    p, h = parameters(6, 10), floats(3, 10)
    inputs = [floats(20, 3, 6) for _ in range(8)]
    expected = [numpy_cell(p, h, xs)[0] for xs in inputs]
    f(p, h, inputs[0])
    results: dict[int, np.ndarray] = {}

    def work(k: int) -> None:
        for _ in range(20):
            results[k] = np.asarray(f(p, h, inputs[k])[0])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(8):
        np.testing.assert_allclose(results[k], expected[k], rtol=1e-4, atol=1e-5)


def test_explain_shows_the_body(engine: Engine):
    f = CompiledFunction(unrolled, engine)
    f(parameters(4, 8), floats(8), floats(3, 4))
    text = str(f.explain())
    assert "repeats 3 times" in text
    assert "next:0" in text


def test_a_large_carry_is_not_copied_between_steps(engine: Engine):
    f = CompiledFunction(lambda x: sn.scan(lambda c, _: (c * 0.5, None), x, length=100)[0], engine)
    f(floats(1000))
    (prepared,) = engine.programs.values()
    program = prepared.assembled.program
    assert len(program.calls) == 1
    assert {slot.name for slot in program.buffers if slot.role is Role.ARENA} == {"scan0.spare0"}


SHAPES = [(), (3,), (4, 3), (3, 3)]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Graph, dict[str, np.ndarray]]:
    """A scan with a random body over two carries, a row and a weight, and values for its inputs."""
    shapes = [draw(st.sampled_from(SHAPES)) for _ in range(4)]
    length = draw(st.integers(0, 4))
    picks = draw(st.lists(st.tuples(*[st.integers(0, 30)] * 3), min_size=1, max_size=6))
    ends = draw(st.tuples(*[st.integers(0, 30)] * 3))
    generator = np.random.default_rng(draw(st.integers(0, 1 << 16)))

    def program(a: Any, b: Any, xs: Any, w: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            pool = [*carry, x, w]
            for kind, i, j in picks:
                pool.append(_grown(kind, pool[i % len(pool)], pool[j % len(pool)]))
            following = tuple(_fitted(pool[e % len(pool)], c) for e, c in zip(ends, carry, strict=False))
            return following, pool[ends[2] % len(pool)]

        return sn.scan(body, (a, b), xs)

    given_shapes = [shapes[0], shapes[1], (length, *shapes[2]), shapes[3]]
    names = ("a", "b", "xs", "w")
    graph = trace(program, [TensorSpec.of(shape) for shape in given_shapes], names).graph
    values = [np.asarray(generator.normal(size=shape), np.float32) for shape in given_shapes]
    return graph, dict(zip(names, values, strict=True))


def _grown(kind: int, a: Any, b: Any) -> Any:
    """One more value, of any shape that the two give."""
    if kind % 6 == 0:
        return sn.tanh(a)
    if kind % 6 == 1 and a.ndim:
        return sn.sum(a, axis=kind % a.ndim) * 0.25
    if kind % 6 == 2 and a.ndim == 2 and b.shape == (3, 3):
        return sn.tanh(a @ b)
    if kind % 6 == 3 and a.ndim:
        return sn.flip(a, 0)
    shapes_meet = a.shape[-b.ndim :] == b.shape if a.ndim >= b.ndim > 0 else not b.ndim
    other = b if shapes_meet else sn.mean(b)
    return sn.where(a < other, a, other * 0.5) if kind % 2 else sn.tanh(a * other + 0.5)


def _fitted(value: Any, carry: Any) -> Any:
    return sn.tanh(value + carry) if value.shape == carry.shape else carry * 0.5 + sn.tanh(sn.mean(value))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(bodies())
def test_compiled_bodies_mean_what_the_interpreter_says(shared: Engine, case: tuple[Graph, dict[str, np.ndarray]]):
    graph, values = case
    prepared = shared.prepare(graph)
    executable: Executable = prepared.bind({}, shared.pool())
    results = dict(zip(prepared.outputs, executable(*(values[name] for name in prepared.inputs)), strict=True))
    for (name, _), expected in zip(graph.outputs, interpret(graph, values), strict=True):
        np.testing.assert_allclose(results[name], expected, rtol=2e-4, atol=2e-5)
