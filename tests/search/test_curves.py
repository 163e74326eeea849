"""Curves: what a search found over time is kept by program, shown by its report, and taken up by the next search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.config import Config
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from snell.search.curves import Curve, Curves
from snell.search.tuning import Moment


@pytest.fixture
def curves(tmp_path: Path) -> Curves:
    return Curves(tmp_path / "records", 1 << 20)


def test_a_curve_has_its_beginning_each_improvement_and_its_end(curves: Curves) -> None:
    curve = Curve(curves, "program")
    for seconds, candidates, run in ((0.1, 0, 20.0), (0.2, 1, 20.0), (0.3, 2, 16.0), (0.4, 3, 16.0)):
        curve.tell(Moment(seconds, candidates, run / 20.0, run))
    curve.end()
    assert curves.get("program") == ((0.1, 0, 20.0), (0.3, 2, 16.0), (0.4, 3, 16.0))
    assert curves.get("another program") == ()


def test_a_later_search_goes_on_where_the_one_before_ended(curves: Curves) -> None:
    for run in (2.0, 1.0):
        curve = Curve(curves, "program")
        curve.tell(Moment(1.5, 4, 1.0, run))
        curve.end()
    assert curves.get("program") == ((1.5, 4, 2.0), (3.0, 8, 1.0))


def test_an_entry_that_is_no_curve_is_dropped(tmp_path: Path, curves: Curves) -> None:
    curves.put("program", ((1.0, 1, 1.0),))
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(b"x" * 200)
    assert curves.get("program") == ()


def test_the_report_of_a_searched_function_shows_its_curve(tmp_path: Path) -> None:
    engine = Engine(Config(threads=2, cache_dir=tmp_path, data_dir=tmp_path))
    searched = CompiledFunction(lambda x: sn.softmax(x), engine, search=1.5)
    searched(np.ones((50, 60), np.float32))
    points = searched.explain().search
    assert points[0][1] == 0
    assert points[-1][1] >= 1
    searched.explain().to_html(tmp_path / "page.html", measure=False)
    assert "candidates timed" in (tmp_path / "page.html").read_text()
