"""The generated part of a page: between two markers stand the tables and plots of the runs given; the prose stays."""

from collections.abc import Sequence
from pathlib import Path

from snell.bench.history.line import Line
from snell.bench.history.plots import suite_plot
from snell.bench.history.tables import history_table, suite_table
from snell.engine.whole_file import write_whole
from snell.errors import FileFormatError

__all__ = ["BEGIN", "END", "PAGE", "write_report"]

PAGE = "performance.md"
BEGIN, END = "<!-- begin of what `snell bench --report` generates -->", "<!-- end of what it generates -->"


def write_report(folder: Path, lines: Sequence[Line]) -> list[Path]:
    """Replace the generated part of ``performance.md`` in the folder and write its plots; the files written."""
    page = folder / PAGE
    prose = page.read_text("utf-8")
    if prose.count(BEGIN) != 1 or prose.count(END) != 1 or prose.index(BEGIN) > prose.index(END):
        raise FileFormatError(f"{page}: expected the lines {BEGIN!r} and, after it, {END!r} once each; add them")
    measured = [line for line in lines if line.value is not None]
    if not measured:
        raise FileFormatError("expected at least one measured figure in the files of --report, received none")
    written: list[Path] = []
    sections: list[str] = []
    for number, machine in enumerate(dict.fromkeys(line.machine for line in measured)):
        own = [line for line in measured if line.machine == machine]
        sections.append(f"### On {machine or 'an unknown machine'}")
        for suite in dict.fromkeys(line.suite for line in own):
            plot = folder / f"performance-{suite}{f'-{number + 1}' if number else ''}.svg"
            write_whole(plot, suite_plot([line for line in own if line.suite == suite]).encode())
            written.append(plot)
            sections.append(_section(suite, own, plot.name))
    before, after = prose[: prose.index(BEGIN) + len(BEGIN)], prose[prose.index(END) :]
    write_whole(page, "\n\n".join([before, *sections, after]).encode())
    return [page, *written]


def _section(suite: str, lines: Sequence[Line], plot: str) -> str:
    own = [line for line in lines if line.suite == suite]
    last = max(own, key=lambda line: line.date)
    said = f"`snell bench {suite}`, snell {last.version}, {last.date[:10]}; ± is the spread, bold the best of a line."
    parts = [f"#### {suite}", said, f"![{suite}]({plot})", suite_table(own)]
    history = history_table(own)
    return "\n\n".join([*parts, f"snell from run to run:\n\n{history}"] if history else parts)
