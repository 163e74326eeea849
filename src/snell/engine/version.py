"""The version of the code that compiles: programs in the cache folder are used only by the code that made them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache

__all__ = ["code_version"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


@cache
def code_version() -> str:
    """A digest of the package's source files: their names, sizes and times of change (a few ms, once a process)."""
    return hashlib.sha256("\n".join(sorted(_states(_PACKAGE))).encode()).hexdigest()


def _states(folder: str) -> Iterator[str]:
    # os.scandir takes 2 ms where Path.rglob takes 9.
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                state = entry.stat()
                yield f"{entry.path[len(_PACKAGE) :]} {state.st_size} {state.st_mtime_ns}"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _states(entry.path)
