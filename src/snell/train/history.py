"""History: what training measured, by name and step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snell import trees

__all__ = ["History", "measured"]


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Series by name ("loss", "grad_norm", a metric's path, "validation/loss"): `steps, values = history["loss"]`."""

    series: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def add(self, step: int, values: Mapping[str, float], prefix: str = "") -> None:
        """Append values that were measured at a step."""
        for name, value in values.items():
            self.series.setdefault(prefix + name, []).append((step, value))

    def last(self, name: str) -> float:
        """The newest value of a series; KeyError, as for a dict, where there is none."""
        return self.series[name][-1][1]

    def __getitem__(self, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(steps i64, values f64) of a series."""
        steps, values = zip(*self.series[name], strict=True)
        return np.asarray(steps, np.int64), np.asarray(values, np.float64)

    def __iter__(self) -> Iterator[str]:
        return iter(self.series)

    def __contains__(self, name: object) -> bool:
        return name in self.series


def measured(loss: Any, metrics: Any) -> dict[str, float]:
    """A loss and the scalars among the metrics as numbers by name."""
    found = {"loss": float(loss)}
    for path, leaf in zip(trees.paths(metrics), trees.leaves(metrics), strict=True):
        if np.size(leaf) == 1:
            found["/".join(path) or "metric"] = float(np.asarray(leaf).reshape(()))
    return found
