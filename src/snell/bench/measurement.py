"""The result of measuring one case with one implementation, and how it is written down.

``Measured`` is a figure; ``Missing`` says why there is none: a missing figure is always listed, never left out.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from snell.bench.cases import Case, Quality
from snell.bench.divergence import statistic

__all__ = ["Measured", "Missing", "Origin", "Outcome", "json_line", "summarise", "summarise_quality"]


@dataclass(frozen=True, slots=True)
class Measured:
    """The median of n repeats in the case's unit; ``spread`` is their interquartile range over the median.

    ``peak_bytes``: the most that the process had resident while it prepared and ran the case, where known.  A figure made
    of many predictions has a ``standard_error`` in its unit and no spread.
    """

    case: Case
    implementation: str
    value: float
    spread: float
    n: int
    threads: int
    limit: float | None = None
    peak_bytes: int | None = None
    standard_error: float | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """Why an implementation has no figure for a case: it does not support it, it failed, or its answer is wrong."""

    case: Case
    implementation: str
    reason: str
    failed: bool


Outcome = Measured | Missing


@dataclass(frozen=True, slots=True)
class Origin:
    """When (ISO 8601), on what machine and with which version of snell a line was measured: what makes it history."""

    date: str
    machine: str
    version: str


def summarise(
    case: Case, implementation: str, readings: Sequence[float], threads: int, limit: float | None
) -> Measured:
    """Reduce the readings of one call each (seconds or bytes, as the case says) to a figure."""
    values = [case.report(reading) for reading in readings]
    median = statistics.median(values)
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [median] * 3
    spread = (quartiles[2] - quartiles[0]) / median if median else 0.0
    return Measured(case, implementation, median, spread, len(values), threads, limit)


def summarise_quality(case: Quality, implementation: str, readings: Sequence[float], threads: int) -> Measured:
    """Reduce the readings of all predictions to a figure with its standard error."""
    value, error = statistic(case.figure, readings)
    return Measured(case, implementation, value, 0.0, len(readings), threads, standard_error=error)


def json_line(outcome: Outcome, origin: Origin) -> str:
    """One line of JSON without a newline; a missing figure has ``value`` null and a ``reason``."""
    fields: dict[str, object] = {"bench": outcome.case.name, "impl": outcome.implementation}
    match outcome:
        case Measured():
            fields |= {"value": outcome.value, "unit": outcome.case.unit, "threads": outcome.threads}
            fields |= {"n": outcome.n, "spread": outcome.spread, "limit": outcome.limit}
            fields |= {"peak_bytes": outcome.peak_bytes, "standard_error": outcome.standard_error}
        case Missing():
            fields |= {"value": None, "unit": outcome.case.unit, "reason": outcome.reason}
    return json.dumps(fields | asdict(origin))
