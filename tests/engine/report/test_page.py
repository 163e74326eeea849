"""Report.to_html: one page that asks for nothing outside itself, and the figures in it."""

from __future__ import annotations

import base64
import itertools
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.config import Config
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from snell.engine.report import Report
from snell.engine.report.costs import kernel_costs, kernel_runs, typical_sizes
from snell.engine.report.layout import layered
from snell.engine.report.memory_picture import lifetimes
from snell.engine.report.search_curve import search_curve
from snell.engine.report.timing import kernel_seconds
from snell.runtime.pool import process_pool


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("engine")
    return Engine(Config(threads=2, cache_dir=folder / "cache", data_dir=folder / "data"))


@pytest.fixture(scope="module")
def report(engine: Engine) -> Report:
    """Two matrix products, a softmax between them, with a symbolic number of rows."""
    compiled = CompiledFunction(lambda x, w: sn.softmax(x @ w, axis=-1) @ w, engine, dims={"x": ("rows", None)})
    compiled(floats(24, 96), floats(96, 96))
    return compiled.explain()


@pytest.fixture(scope="module")
def page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "page.html"
    report.to_html(path)
    return path.read_text("utf-8")


def test_the_page_asks_for_nothing_outside_itself(page: str):
    asked = re.findall(r"""(?:src|href)\s*=\s*["'](?!#)[^"']*|@import|url\(|fetch\(|XMLHttpRequest""", page)
    assert asked == []


def test_every_kernel_has_a_row_with_a_measured_time_and_its_code(page: str, report: Report):
    for kernel in report.kernels:
        assert f'href="#{kernel.name}"' in page
        assert f'<details id="{kernel.name}">' in page
    assert page.count("FLOP/s</td>") == len(report.kernels)


def test_code_is_packed_and_comes_back_as_it_was(page: str, report: Report):
    packed = re.findall(r'data-packed="([^"]*)"', page)
    unpacked = {zlib.decompress(base64.b64decode(text)).decode() for text in packed}
    assert {text for kernel in report.kernels for text in (kernel.loops, kernel.llvm_ir, kernel.assembly)} == unpacked


def test_the_graphs_show_the_primitives_before_and_the_kernels_after(page: str, report: Report):
    before, after = (json.loads(text) for text in re.findall(r'type="application/json">(.*?)</script>', page))
    assert "SumReduce" in {box[2] for box in before["boxes"]}
    assert {kernel.name for kernel in report.kernels} <= {box[2] for box in after["boxes"]}


def test_names_that_look_like_markup_are_escaped(engine: Engine, tmp_path: Path):
    compiled = CompiledFunction(lambda d: d["</script><b>"] + 1.0, engine)
    compiled({"</script><b>": floats(3)})
    compiled.explain().to_html(tmp_path / "page.html", measure=False)
    assert "</script><b>" not in (tmp_path / "page.html").read_text("utf-8")


def test_without_measuring_there_are_no_times_and_no_roofline(report: Report, tmp_path: Path):
    report.to_html(tmp_path / "page.html", measure=False)
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "<h2>Roofline</h2>" not in text
    assert "FLOP/s</td>" not in text


def test_a_matrix_product_costs_two_operations_for_each_pair_and_each_array_once(engine: Engine):
    compiled = CompiledFunction(lambda x, w: x @ w, engine)
    compiled(floats(32, 48), floats(48, 16))
    (cost,) = kernel_costs(compiled.explain().compilation, {}).values()
    assert cost.flops == 2 * 32 * 48 * 16
    assert cost.bytes == 4 * (32 * 48 + 48 * 16 + 32 * 16)


def test_a_lookup_moves_the_rows_that_it_reads(engine: Engine):
    compiled = CompiledFunction(lambda table, i: sn.take(table, i, axis=0) * 2.0, engine)
    compiled(floats(1000, 64), np.array([3, 4], np.int32))
    costs = kernel_costs(compiled.explain().compilation, {}).values()
    assert sum(cost.bytes for cost in costs) < 1000 * 64


def test_steps_of_a_repetition_run_as_often_as_it_repeats(engine: Engine):
    compiled = CompiledFunction(lambda x, rows: sn.scan(lambda c, r: (sn.tanh(c * r), c), x, rows), engine)
    compiled(floats(4), floats(9, 4))
    runs = kernel_runs(compiled.explain().compilation, {})
    assert max(runs.values()) >= 9


def test_every_kernel_is_measured_at_typical_sizes(report: Report):
    sizes = typical_sizes(report.compilation.lowered.graph)
    seconds = kernel_seconds(report.compilation, sizes, process_pool(2))
    assert seconds.keys() == {kernel.name for kernel in report.kernels}
    assert min(seconds.values()) > 0


def test_a_buffer_lives_from_the_call_that_writes_it_to_the_last_that_reads_it(report: Report):
    program = report.compilation.assembled.program
    lives = lifetimes(program)
    assert max(last for _, last in lives.values()) == len(program.calls) - 1
    assert [life for life in lives.values() if life[0] > life[1]] == []


def test_a_layout_puts_producers_above_consumers_and_nodes_apart():
    edges = [(0, 2), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5), (0, 5)]
    places = layered(6, edges)
    assert [edge for edge in edges if places[edge[0]][1] >= places[edge[1]][1]] == []
    for layer in {layer for _, layer in places}:
        across = sorted(x for x, other in places if other == layer)
        assert [b - a for a, b in itertools.pairwise(across) if b - a < 1 - 1e-9] == []


def test_a_search_that_never_ran_has_no_curve_and_one_that_ran_has():
    assert search_curve(()) == ""
    assert "candidates timed" in search_curve(((0.1, 1, 2e-3), (0.4, 7, 1e-3)))
