"""Records: the best plan found for a kernel on a machine, kept in the user's cache folder.

A record's key has the canonical group, the target, the threads and the version of the code; its entry is a file of its own
under a checksum, put in place by one rename (`runtime.cache`), so that many processes may write, and a kill at any moment
loses nothing that was recorded.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snell.errors import FileFormatError
from snell.loops.plan import Plan, plan_from_data, plan_to_data
from snell.runtime.cache import Cache
from snell.targets import Target

__all__ = ["Record", "Records", "record_key"]


@dataclass(frozen=True, slots=True)
class Record:
    """A plan, its time over the heuristics' in the same turns, its seconds, and how many candidates were tried."""

    plan: Plan
    ratio: float
    seconds: float
    candidates: int


def record_key(group_text: str, target: Target, threads: int, version: str) -> str:
    """All that a record depends on."""
    digest = hashlib.sha256(group_text.encode()).hexdigest()
    return "\n".join(("record", digest, repr(target), str(threads), version))


class Records:
    """Records in a folder."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self._cache = Cache(folder, limit_bytes)

    def get(self, key: str) -> Record | None:
        """The record under a key; None where there is none that is whole."""
        data = self._cache.get(key)
        if data is None:
            return None
        try:
            return _record(json.loads(data))
        except (FileFormatError, ValueError, KeyError, TypeError):
            self._cache.drop(key)
            return None

    def put(self, key: str, record: Record) -> None:
        """Keep a record; one that another process has found to be better stays."""
        known = self.get(key)
        if known is None or record.ratio < known.ratio:
            self._cache.put(key, json.dumps(_data(record)).encode())

    def drop(self, key: str) -> None:
        """Forget a record."""
        self._cache.drop(key)


def _data(record: Record) -> dict[str, Any]:
    return {
        "plan": plan_to_data(record.plan), "ratio": record.ratio, "seconds": record.seconds,
        "candidates": record.candidates,
    }  # fmt: skip


def _record(data: dict[str, Any]) -> Record:
    return Record(plan_from_data(data["plan"]), float(data["ratio"]), float(data["seconds"]), int(data["candidates"]))
