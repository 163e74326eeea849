"""Tables in Markdown: each suite's figures beside the peers', and how snell's own changed from run to run."""

from collections.abc import Iterable, Sequence

from snell.bench.history.line import Line, latest

__all__ = ["history_table", "suite_table"]

SNELL = "snell"


def suite_table(lines: Iterable[Line]) -> str:
    """A row a benchmark, a column an implementation, of one machine; the best figure is bold."""
    shown = latest(lines)
    impls = sorted({line.impl for line in shown}, key=lambda impl: (not impl.startswith(SNELL), impl))
    has_peak = any(line.peak_bytes and line.impl == SNELL for line in shown)
    heads = ["bench", "unit", *impls, "limit", *(["snell's peak memory"] if has_peak else [])]
    rows = [_row(bench, shown, impls, has_peak) for bench in dict.fromkeys(line.bench for line in shown)]
    return _markdown(heads, rows)


def _row(bench: str, shown: Sequence[Line], impls: Sequence[str], has_peak: bool) -> list[str]:
    own = {line.impl: line for line in shown if line.bench == bench}
    best = max(own.values(), key=lambda line: line.speed(line.value or 1.0))
    cells = [_cell(own.get(impl), is_best=len(own) > 1 and own.get(impl) == best) for impl in impls]
    snell = own.get(SNELL)
    limits = [line.limit for line in own.values() if line.limit is not None]
    peak = [_mebibytes(snell)] if has_peak else []
    return [f"`{bench}`", best.unit, *cells, number(limits[0]) if limits else "", *peak]


def _cell(line: Line | None, *, is_best: bool) -> str:
    if line is None or line.value is None:
        return ""
    text = number(line.value)
    scatter = f"{line.spread:.0%}" if line.standard_error is None else f"{line.standard_error:.2g}"
    return f"{f'**{text}**' if is_best else text} ±{scatter}"


def _mebibytes(line: Line | None) -> str:
    return "" if line is None or not line.peak_bytes else f"{line.peak_bytes / 2**20:,.0f} MiB"


def history_table(lines: Iterable[Line]) -> str:
    """snell's figures of one machine, a column a run; empty where there is one run only."""
    own = [line for line in lines if line.impl == SNELL and line.value is not None]
    runs = sorted({(line.date[:10], line.version) for line in own})
    if len(runs) < 2:
        return ""
    rows: list[list[str]] = []
    for bench in dict.fromkeys(line.bench for line in own):
        by_run = {(line.date[:10], line.version): line for line in own if line.bench == bench}
        unit = next(iter(by_run.values())).unit
        rows.append([f"`{bench}`", unit, *(number(by_run[r].value or 0.0) if r in by_run else "" for r in runs)])
    return _markdown(["bench", "unit", *(f"{date}, {version}" for date, version in runs)], rows)


def number(value: float) -> str:
    """Four digits at most."""
    return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
