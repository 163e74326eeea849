"""``snell bench SUITE``: a table of measurements, and with ``--json`` one line each in a file."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from snell.bench import (
    SUITES,
    Case,
    JudgedText,
    Options,
    Origin,
    Outcome,
    choose,
    json_line,
    machine_limits,
    origin,
    run,
    suite,
)
from snell.bench.history import read_lines, write_report
from snell.cli.bench_table import failures, footer, limits_line, rows, table
from snell.cli.console import errors, output
from snell.config import Config, available_threads, process_environment
from snell.errors import ConfigError

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def bench(
    suite_name: Annotated[
        str, typer.Argument(metavar="SUITE", help=f"{', '.join(SUITES)}, all, or one benchmark's name.")
    ] = "all",
    peers: Annotated[str, typer.Option(help="all, none, or names separated by commas.")] = "all",
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write JSON lines.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of every implementation.")] = None,
    repeats: Annotated[int, typer.Option(min=9, help="Readings of each figure.")] = 9,
    report: Annotated[
        list[Path] | None,
        typer.Option("--report", metavar="FILE", help="Measure nothing: make the page of figures from such lines."),
    ] = None,
    docs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the page of --report is.")] = Path("docs"),
    search: Annotated[
        float, typer.Option(min=0.0, help="Also measure snell after so many seconds of search a line.")
    ] = 0.0,
    text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What quality is judged on; else Python's own reference.")
    ] = None,
    predictions: Annotated[int, typer.Option(min=2, help="How many next tokens quality is judged on.")] = 20_000,
    names: Annotated[bool, typer.Option("--list", help="List the benchmarks and stop.")] = False,
) -> None:
    """Measure snell beside the installed peers."""
    if report:
        for path in write_report(docs, read_lines(report)):
            errors.print(f"wrote {path}", highlight=False)
        return
    cases = suite(suite_name)
    if names:
        for case in cases:
            output.out(case.name, highlight=False)
        return
    environ = process_environment()
    count = threads or Config.from_environment(environ).threads or available_threads()
    if count > available_threads():
        raise ConfigError(f"--threads {count}: expected at most {available_threads()}, the cores this process may use")
    chosen = choose(peers, search=search > 0)
    _warn_of_load(count)
    errors.print("measuring what the machine can do …", style="dim")
    limits = machine_limits(count)
    options = Options(threads=count, repeats=repeats, search_seconds=search, text=JudgedText(text, predictions))
    outcomes: list[Outcome] = []
    here = origin(count)
    try:
        for outcome in run(cases, chosen.installed, options, limits, environ, begin=_begin):
            outcomes.append(outcome)
            _append(json_file, outcome, here, first=len(outcomes) == 1)
    except KeyboardInterrupt:
        # What was measured until then is worth showing.
        errors.print("stopped")
    _show(cases, outcomes)
    output.print(limits_line(limits))
    output.print(footer(chosen))


def _warn_of_load(threads: int) -> None:
    # Another program's load slows implementations down by different factors: one that waits at barriers by ten.
    if sys.platform != "win32" and os.getloadavg()[0] > 0.3 * threads:
        errors.print(f"the machine is busy (load {os.getloadavg()[0]:.1f}): figures will mislead", style="yellow")


def _begin(case: Case) -> None:
    errors.print(case.name, style="dim")


def _append(path: Path | None, outcome: Outcome, here: Origin, *, first: bool) -> None:
    if path is None:
        return
    with path.open("w" if first else "a", encoding="utf-8") as file:
        file.write(json_line(outcome, here) + "\n")


def _show(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> None:
    output.out(table(row for case in cases for row in rows(case, outcomes)), highlight=False)
    for line in failures(outcomes):
        output.out(line, highlight=False)
