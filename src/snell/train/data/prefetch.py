"""Prefetching: an iterator that runs ahead in a thread of its own, by a bounded number of items.

What the iterator raises is raised where the item is asked for, with the thread's trace in it.  Closing, leaving or
forgetting the prefetcher ends the thread.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["prefetched"]

# How long the thread waits for room before it looks whether anyone still wants items.
_PATIENCE_S = 0.1


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


class _End:
    """The iterator is exhausted."""


def prefetched(make: Callable[[], Iterator[Any]], depth: int) -> Iterator[Any]:
    """The items of `make()`, up to `depth` of them made before they are asked for; with depth 0, plainly `make()`."""
    return make() if depth == 0 else _Prefetcher(make, depth)


class _Prefetcher(Iterator[Any]):
    """The consumer's end.  The thread holds no reference to it, so that forgetting it ends the thread."""

    def __init__(self, make: Callable[[], Iterator[Any]], depth: int) -> None:
        self._items: queue.Queue[Any] = queue.Queue(depth)
        stopped = threading.Event()
        self._close = weakref.finalize(self, stopped.set)
        self._thread = threading.Thread(
            target=_produce, args=(make, self._items, stopped), name="snell-data", daemon=True
        )
        self._thread.start()
        self._done = False

    def __next__(self) -> Any:
        if self._done:
            raise StopIteration
        item = self._items.get()
        if isinstance(item, _End | _Failure):
            self._done = True
            self._thread.join()
            if isinstance(item, _Failure):
                raise item.error
            raise StopIteration
        return item

    def close(self) -> None:
        """End the thread; no item follows."""
        self._done = True
        self._close()
        self._thread.join()


def _produce(make: Callable[[], Iterator[Any]], items: queue.Queue[Any], stopped: threading.Event) -> None:
    try:
        for item in make():
            if not _offered(item, items, stopped):
                return
        _offered(_End(), items, stopped)
    except BaseException as error:  # raised again where the item is asked for, whatever it is
        _offered(_Failure(error), items, stopped)


def _offered(item: Any, items: queue.Queue[Any], stopped: threading.Event) -> bool:
    """Put the item as soon as there is room; False where nobody wants it any more."""
    while not stopped.is_set():
        try:
            items.put(item, timeout=_PATIENCE_S)
        except queue.Full:
            continue
        return True
    return False
