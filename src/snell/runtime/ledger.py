"""The ledger of searches: whether records have changed, and how long each program was searched.

What a process has to know before it takes a compiled program from the cache; it needs neither records nor plans for that.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

from snell.config import SearchBudget
from snell.runtime.cache import Cache

__all__ = ["Ledger"]


class Ledger:
    """Beside the folder of the records (`search.records`)."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self._spent = Cache(folder.with_name(f"{folder.name}-spent"), limit_bytes)

    def owes(self, program: str, budget: SearchBudget) -> bool:
        """Whether a search of a program for so many seconds ("off", "full") has time left that was not spent yet."""
        return budget != "off" and self.spent(program) < (math.inf if budget == "full" else float(budget))

    def spent(self, program: str) -> float:
        """Seconds of search that a program got so far; infinite after a full one."""
        data = self._spent.get(program)
        try:
            return 0.0 if data is None else float(data)
        except ValueError:
            return 0.0

    def spend(self, program: str, seconds: float) -> None:
        """Note seconds of search; infinity for a full one."""
        self._spent.put(program, str(self.spent(program) + seconds).encode())

    def stamp(self) -> str:
        """A word that changes with every change of a record: from the entries' names and files (each write is a new file).

        Times would not do: reading an entry marks it as used.
        """
        entries = sorted(f"{entry.name} {entry.inode()}" for entry in self._entries())
        return hashlib.sha256("\n".join(entries).encode()).hexdigest() if entries else ""

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        with contextlib.suppress(OSError), os.scandir(self.folder) as folders:
            for folder in folders:
                if folder.is_dir():
                    with os.scandir(folder) as entries:
                        yield from (entry for entry in entries if not entry.name.startswith("."))
