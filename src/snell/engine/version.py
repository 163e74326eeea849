"""The version of the code that compiles: programs in the cache folder are used only by the code that made them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__all__ = ["code_version"]

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def code_version() -> str:
    """A digest of the package's source files: their names, sizes and times of change (a few ms, once a process)."""
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        state = file.stat()
        digest.update(f"{file.relative_to(_PACKAGE)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()
