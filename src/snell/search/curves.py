"""Curves: how the searches of a program went, kept beside the records so that a report can show them later.

An entry a program, under a checksum and put in place by one rename (`runtime.cache`); a later search of the same program
goes on where the one before ended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from snell.runtime.cache import Cache
from snell.search.tuning import Moment

__all__ = ["Curve", "CurvePoint", "Curves"]

_MOST_POINTS = 256  # the latest are kept

CurvePoint = tuple[float, int, float]
"""Seconds of search, candidates tried by then, and the best seconds of one run of the program's kernels."""


class Curves:
    """Beside the folder of the records (`search.records`)."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._cache = Cache(folder.with_name(f"{folder.name}-curves"), limit_bytes)

    def get(self, program: str) -> tuple[CurvePoint, ...]:
        """The curve of a program; empty where it was not searched, or where the entry is none."""
        data = self._cache.get(program)
        try:
            found = [] if data is None else json.loads(data)
            return tuple((float(seconds), int(candidates), float(best)) for seconds, candidates, best in found)
        except (ValueError, TypeError):
            self._cache.drop(program)
            return ()

    def put(self, program: str, points: tuple[CurvePoint, ...]) -> None:
        """Keep a curve."""
        self._cache.put(program, json.dumps(points).encode())


@dataclass(slots=True)
class Curve:
    """The curve of a program while it is searched: kept at each improvement and at the end."""

    curves: Curves
    program: str
    before: tuple[CurvePoint, ...] = field(init=False)
    points: list[CurvePoint] = field(default_factory=list[CurvePoint])
    last: CurvePoint | None = None

    def __post_init__(self) -> None:
        self.before = self.curves.get(self.program)

    def tell(self, moment: Moment) -> None:
        """Take in a moment of the search."""
        seconds, candidates = self.before[-1][:2] if self.before else (0.0, 0)
        self.last = (seconds + moment.seconds, candidates + moment.candidates, moment.run_seconds)
        if not self.points or moment.run_seconds < self.points[-1][2]:
            self.points.append(self.last)
            self._keep()

    def end(self) -> None:
        """Keep where the search ended."""
        if self.last is not None and self.last != self.points[-1]:
            self.points.append(self.last)
            self._keep()

    def _keep(self) -> None:
        self.curves.put(self.program, (*self.before, *self.points)[-_MOST_POINTS:])
