"""A lock between processes: a file that at most one process holds locked.

The operating system drops the lock when its holder ends, however it ends; the file itself stays and means nothing.
"""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["locked"]

_POLL_SECONDS = 0.1

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock file at ``path`` for the length of the block; waits for another process that holds it."""
    with path.open("a+b") as file:
        while not _try_lock(file.fileno()):
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            _unlock(file.fileno())
