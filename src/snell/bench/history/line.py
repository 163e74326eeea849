"""A line that ``snell bench --json`` wrote, read back; and the latest of several runs."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from snell.errors import FileFormatError

__all__ = ["Line", "latest", "read_lines"]

HIGHER_IS_BETTER = ("GFLOP/s", "tokens/s", "%")


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of one run, or why there is none (``value`` None)."""

    bench: str
    impl: str
    value: float | None
    unit: str
    spread: float
    limit: float | None
    peak_bytes: int | None
    date: str
    machine: str
    version: str
    standard_error: float | None = None

    @property
    def suite(self) -> str:
        return self.bench.partition("/")[0]

    def speed(self, value: float) -> float:
        """More is better, whatever the unit is."""
        return value if self.unit in HIGHER_IS_BETTER else 1.0 / value


def read_lines(paths: Iterable[Path]) -> list[Line]:
    """The lines of all files, in order; FileFormatError names the line that is none."""
    return [
        _parsed(text, f"{path}:{number}")
        for path in paths
        for number, text in enumerate(path.read_text("utf-8").splitlines(), 1)
        if text.strip()
    ]


def _parsed(text: str, where: str) -> Line:
    try:
        fields = json.loads(text)
        return Line(
            bench=str(fields["bench"]),
            impl=str(fields["impl"]),
            value=None if fields["value"] is None else float(fields["value"]),
            unit=str(fields["unit"]),
            spread=float(fields.get("spread") or 0.0),
            limit=fields.get("limit"),
            peak_bytes=fields.get("peak_bytes"),
            date=str(fields.get("date", "")),
            machine=str(fields.get("machine", "")),
            version=str(fields.get("version", "")),
            standard_error=fields.get("standard_error"),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise FileFormatError(
            f"{where}: expected a line that `snell bench --json` wrote, received {text[:80]!r} ({error!r})"
        ) from error


def latest(lines: Iterable[Line]) -> list[Line]:
    """Of the figures of one benchmark and implementation on one machine, the one measured last; in order of first sight."""
    found: dict[tuple[str, str, str], Line] = {}
    for line in lines:
        key = (line.machine, line.bench, line.impl)
        known = found.get(key)
        if line.value is not None and (known is None or line.date >= known.date):
            found[key] = line
    return list(found.values())
