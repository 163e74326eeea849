"""Locks that a fork does not break.

A child has one thread, the one that forked: a lock that another thread held in the parent would never be released there.
What such a lock guards is filled by single assignments (a dict's entry, an attribute), so a child that finds it half done
finds it not begun, and may do it itself.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Final

__all__ = ["Lock"]


class Lock:
    """A reentrant lock; a forked child finds it free, unless the thread that forked holds it."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _ALIVE.add(self)

    def acquire(self) -> None:
        """Wait until no other thread holds the lock, and hold it."""
        self._lock.acquire()

    def release(self) -> None:
        """Undo one `acquire` of this thread."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """In a forked child: be free where a thread that does not exist here holds the lock."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_ALIVE: Final[weakref.WeakSet[Lock]] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in _ALIVE:
        lock.renew()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
