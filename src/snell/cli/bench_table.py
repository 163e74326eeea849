"""The table of ``snell bench``: one row a figure, the reason where there is none, the peers that are not installed."""

from collections.abc import Iterable, Iterator, Sequence

from snell.bench import Case, Chosen, MachineLimits, Measured, Missing, Outcome

__all__ = ["failures", "footer", "limits_line", "rows", "table"]

Row = tuple[str, str, str, str, str, str, str]

_NUMBERS = (2, 4, 5, 6)  # columns whose cells end together


def table(lines: Iterable[Row]) -> str:
    """The rows under their headings, a line each however narrow the terminal is: a figure is not to be cut."""
    cells = [("bench", "impl", "value", "unit", "spread", "limit", "peak"), *lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    aligned = [
        [
            cell.rjust(width) if k in _NUMBERS else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in cells
    ]
    return "\n".join("  ".join(row).rstrip() for row in aligned)


def rows(case: Case, outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """The figures of a case, then those that failed; an implementation that does not do such a case has no row."""
    for outcome in outcomes:
        if outcome.case != case:
            continue
        match outcome:
            case Measured(value=value, limit=limit, peak_bytes=peak):
                shown = "" if limit is None else _number(limit)
                yield (
                    case.name,
                    outcome.implementation,
                    _number(value),
                    case.unit,
                    _scatter(outcome),
                    shown,
                    _mebibytes(peak),
                )
            case Missing(failed=True):
                yield case.name, outcome.implementation, "failed", "", "", "", ""
            case Missing():
                yield case.name, outcome.implementation, "–", "not supported", "", "", ""


def _scatter(figure: Measured) -> str:
    if figure.standard_error is None:
        return f"{figure.spread:.0%} of {figure.n}"
    return f"±{figure.standard_error:.2g} of {figure.n:,}"


def failures(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Why figures are missing, a line each, for below the table."""
    for outcome in outcomes:
        if isinstance(outcome, Missing) and outcome.failed:
            yield f"{outcome.case.name}: {outcome.implementation} failed: {' '.join(outcome.reason.split())}"


def limits_line(limits: MachineLimits) -> str:
    """What the machine can do, as measured in this run."""
    read, flops = limits.read_bytes_per_second, limits.f32_flops_per_second
    parts = [f"{limits.threads} threads"]
    parts.append("memory read limit unknown" if read is None else f"memory reads {read / 1e9:.1f} GB/s")
    parts.append("arithmetic limit not measured yet" if flops is None else f"f32 {flops / 1e9:.0f} GFLOP/s")
    return "machine: " + ", ".join(parts)


def footer(chosen: Chosen) -> str:
    """The peers that were asked for and are not installed, with what is missing."""
    if not chosen.not_installed:
        return "every peer that was asked for is installed"
    return "\n".join(f"{each.name}: not installed ({', '.join(each.missing)})" for each in chosen.not_installed)


def _mebibytes(peak: int | None) -> str:
    return "" if peak is None else f"{peak / 2**20:,.0f} MiB"


def _number(value: float) -> str:
    return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"
