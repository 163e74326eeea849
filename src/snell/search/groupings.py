"""Recorded groupings: which decisions of the heuristics about a program a search found to be better otherwise.

Kept in the folder of the records, an entry a program, under a checksum and put in place by one rename.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from snell.errors import FileFormatError
from snell.rewrite.decisions import Grouping, grouping_from_text
from snell.runtime.cache import Cache

__all__ = ["GroupingRecord", "GroupingTrial", "Groupings"]


@dataclass(frozen=True, slots=True)
class GroupingTrial:
    """A decision changed: the roofline cost's ratio, the measured one of the whole program (None: rejected), and whether
    it was kept."""

    decision: str
    predicted: float
    measured: float | None
    kept: bool


@dataclass(frozen=True, slots=True)
class GroupingRecord:
    """The grouping, the whole program's time over the heuristics', and the trials that say so."""

    grouping: Grouping
    ratio: float
    trials: tuple[GroupingTrial, ...] = ()


class Groupings:
    """Records of groupings, by the key of a program."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._cache = Cache(folder, limit_bytes)

    def get(self, program: str) -> GroupingRecord | None:
        """The record of a program; None where there is none that is whole."""
        key = _key(program)
        data = self._cache.get(key)
        if data is None:
            return None
        try:
            return _from_bytes(data)
        except (FileFormatError, ValueError, KeyError, TypeError):
            self._cache.drop(key)
            return None

    def put(self, program: str, record: GroupingRecord) -> None:
        """Keep a record in place of what was known."""
        data = {
            "grouping": str(record.grouping), "ratio": record.ratio,
            "trials": [[t.decision, t.predicted, t.measured, t.kept] for t in record.trials],
        }  # fmt: skip
        self._cache.put(_key(program), json.dumps(data).encode())


def _key(program: str) -> str:
    return f"grouping\n{program}"


def _from_bytes(data: bytes) -> GroupingRecord:
    found = json.loads(data)
    trials = tuple(
        GroupingTrial(str(decision), float(predicted), None if measured is None else float(measured), bool(kept))
        for decision, predicted, measured, kept in found["trials"]
    )
    return GroupingRecord(grouping_from_text(found["grouping"]), float(found["ratio"]), trials)
