"""Writing a file in one step: a reader sees all of it or what was there before."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` beside the path, then rename; OSError leaves nothing behind."""
    descriptor, temporary = tempfile.mkstemp(dir=Path(path).resolve().parent, prefix=".snell-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
