"""Lines of runs become tables and plots between two markers of a page; everything else on the page stays."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from snell.bench import Measured, Missing, Origin, json_line
from snell.bench.cases import Attention, Matmul, Quality, QualityFigure
from snell.bench.history import read_lines, write_report
from snell.bench.history.document import BEGIN, END
from snell.errors import FileFormatError

PRODUCT, ATTENTION = Matmul(8, 8, 8, "f32"), Attention(False, 64)
PROSE = f"# Performance\n\nbefore\n\n{BEGIN}\n\nstale\n\n{END}\n\nafter\n"


def origin(day: int) -> Origin:
    return Origin(f"2026-01-{day:02}T00:00:00+00:00", "a machine", f"0.{day}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "performance.md").write_text(PROSE)
    return tmp_path


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


def run(path: Path, day: int, snell: float) -> Path:
    """A run of a product beside a peer, and of an attention."""
    return write(
        path,
        json_line(Measured(PRODUCT, "snell", snell, 0.02, 9, 2, 150.0), origin(day)),
        json_line(Measured(PRODUCT, "numpy", 110.0, 0.01, 9, 2, 150.0), origin(day)),
        json_line(Missing(PRODUCT, "jax", "not here", failed=False), origin(day)),
        json_line(Measured(ATTENTION, "snell", 2.0, 0.03, 9, 2, None, 64 << 20), origin(day)),
    )


def page(folder: Path, *files: Path) -> str:
    write_report(folder, read_lines(files))
    return (folder / "performance.md").read_text()


def test_only_what_stands_between_the_markers_is_replaced(folder: Path) -> None:
    text = page(folder, run(folder / "a.jsonl", 1, 120.0))
    assert text.startswith(f"# Performance\n\nbefore\n\n{BEGIN}\n\n")
    assert text.endswith(f"\n\n{END}\n\nafter\n")
    assert "stale" not in text


def test_writing_twice_gives_the_same_page(folder: Path) -> None:
    file = run(folder / "a.jsonl", 1, 120.0)
    assert page(folder, file) == page(folder, file)


def test_a_row_has_every_implementation_with_the_best_in_bold_and_the_limit(folder: Path) -> None:
    text = page(folder, run(folder / "a.jsonl", 1, 120.0))
    assert "| `matmul/8x8x8/f32` | GFLOP/s | **120** ±2% | 110 ±1% | 150 |" in text


def test_peak_memory_is_shown_where_it_was_measured(folder: Path) -> None:
    assert "| `attention/full/64` | ms | 2 ±3% |  | 64 MiB |" in page(folder, run(folder / "a.jsonl", 1, 120.0))


def test_of_several_runs_the_last_is_shown_and_all_are_history(folder: Path) -> None:
    text = page(folder, run(folder / "b.jsonl", 2, 90.0), run(folder / "a.jsonl", 1, 120.0))
    assert "| 90 ±2% | **110** ±1% |" in text
    assert "| bench | unit | 2026-01-01, 0.1 | 2026-01-02, 0.2 |" in text
    assert "| `matmul/8x8x8/f32` | GFLOP/s | 120 | 90 |" in text


def test_a_plot_has_a_dot_for_each_figure_at_its_share_of_the_limit(folder: Path) -> None:
    page(folder, run(folder / "a.jsonl", 1, 120.0))
    plot = ElementTree.parse(folder / "performance-matmul.svg")
    titles = {title.text for title in plot.iter("{http://www.w3.org/2000/svg}title")}
    assert titles == {"snell: 80%", "numpy: 73%"}


def test_a_page_without_markers_is_left_alone(folder: Path) -> None:
    (folder / "performance.md").write_text("prose")
    with pytest.raises(FileFormatError, match="once each"):
        page(folder, run(folder / "a.jsonl", 1, 120.0))
    assert (folder / "performance.md").read_text() == "prose"


@pytest.mark.parametrize("text", ["no json", json.dumps({"bench": "x"}), "3"])
def test_a_line_that_is_no_figure_is_named_with_its_place(folder: Path, text: str) -> None:
    with pytest.raises(FileFormatError, match=r"bad\.jsonl:1"):
        read_lines([write(folder / "bad.jsonl", text)])


def test_a_figure_with_a_standard_error_shows_it_in_its_unit(folder: Path) -> None:
    case = Quality("smollm2", QualityFigure.AGREEMENT)
    lines = [
        json_line(Measured(case, impl, value, 0.0, 20_000, 2, standard_error=0.14), origin(1))
        for impl, value in (("snell", 95.9), ("llama.cpp", 95.4))
    ]
    text = page(folder, write(folder / "a.jsonl", *lines))
    assert "| `quality/smollm2/top1` | % | **95.9** ±0.14 | 95.4 ±0.14 |" in text
