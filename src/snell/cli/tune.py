"""``snell tune MODEL``: search for faster schedules of a model's kernels, and say what was gained."""

import re
from typing import Annotated

import typer
from rich.table import Table

import snell as sn
from snell.cli.console import errors, output
from snell.cli.models_folder import model_path
from snell.cli.options import KVDtype, Model, Offline, Threads
from snell.cli.tuning_bar import tuning_bar
from snell.config import Config, process_environment
from snell.errors import ConfigError, UnsupportedError
from snell.search.groupings import GroupingRecord
from snell.search.tuning import Tuning

__all__ = ["app"]

app = typer.Typer(add_completion=False)

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_WON = 0.99  # of the time before: less than a percent is not worth a line


@app.command()
def tune(
    model: Model,
    budget: Annotated[str, typer.Option(help="How long to search: 60s, 5m, 1h.")] = "60s",
    offline: Offline = False,
    threads: Threads = None,
    kv_dtype: KVDtype = "f16",
) -> None:
    """Search for faster schedules of a model; Ctrl-C ends the search and keeps what was found."""
    seconds = _seconds(budget)
    config = Config.from_environment(process_environment())
    path = model_path(model, config, offline=offline)
    if path.suffix == ".snell":
        raise UnsupportedError(
            f"{path}: a saved program is not searched again; give sn.compile a search= and save again"
        )
    count = threads or config.threads
    with tuning_bar(errors, seconds) as show:
        found = sn.llm.load(path, threads=count, kv_dtype=kv_dtype).tune(seconds, show)
    for tuning in found:
        _show(tuning)
    if any(tuning.interrupted for tuning in found):
        errors.print("stopped; what was found is kept")
    sn.llm.load(path, threads=count, kv_dtype=kv_dtype).prepare()  # compiled now, so that the next start has it


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ConfigError(f"--budget {text}: expected a time such as 60s, 5m or 1h")
    return float(match[1]) * _UNITS[match[2] or ""]


def _show(tuning: Tuning) -> None:
    candidates = sum(kernel.candidates for kernel in tuning.kernels)
    rejected = sum(len(kernel.rejected) for kernel in tuning.kernels)
    table = Table("kernel", "what it does", "calls", "before, µs", "after, µs", "candidates", box=None, pad_edge=False)
    for kernel in sorted(tuning.kernels, key=lambda k: -k.won):
        if kernel.ratio < _WON:
            before = kernel.seconds * 1e6
            after = "taken back" if kernel.taken_back else f"{before * kernel.ratio:.1f}"
            cells = f"{kernel.calls:g}", f"{before:.1f}", after, str(kernel.candidates)
            table.add_row(", ".join(kernel.writes), kernel.does, *cells)
    output.print(table)
    output.print(
        f"{candidates} candidates, {rejected} rejected; the kernels take {100 * tuning.ratio:.0f} % of the time they took"
    )
    output.print(_whole(tuning))
    if tuning.grouping is not None and tuning.grouping.trials:
        output.print(_grouping(tuning.grouping))
    if tuning.correlation is not None:
        output.print(f"rank correlation of the cost model with the clock: {tuning.correlation:.2f}")


def _grouping(record: GroupingRecord) -> str:
    changed = ", ".join(str(decision) for decision in record.grouping.decisions) or "nothing was better otherwise"
    return f"grouping: {len(record.trials)} other decisions timed; {changed} ({100 * record.ratio:.1f} % of the time)"


def _whole(tuning: Tuning) -> str:
    if tuning.whole is None:
        return "the whole program was not timed"
    count = sum(kernel.taken_back for kernel in tuning.kernels)
    back = f"; {count} plan{'s' if count > 1 else ''} that did not help it taken back" if count else ""
    return f"the whole program takes {100 * tuning.whole:.1f} % of the time it took{back}"
