"""Prefetching: an iterator that runs ahead in a thread of its own, by a bounded number of items.

What the iterator raises is raised where the item is asked for, with the thread's trace in it.  Closing or forgetting the
generator ends the thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["prefetched"]

# How long the thread waits for room before it looks whether anyone still wants items.
_PATIENCE_S = 0.05


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


class _End:
    """The iterator is exhausted."""


def prefetched(make: Callable[[], Iterator[Any]], depth: int) -> Generator[Any]:
    """The items of `make()`, up to `depth` of them made before they are asked for; with depth 0 there is no thread."""
    if depth == 0:
        yield from make()
        return
    items: queue.SimpleQueue[Any] = queue.SimpleQueue()
    room, stopped = threading.Semaphore(depth), threading.Event()
    thread = threading.Thread(target=_produce, args=(make, items, room, stopped), name="snell-data", daemon=True)
    thread.start()
    try:
        while not isinstance(item := items.get(), _End):
            if isinstance(item, _Failure):
                raise item.error
            room.release()
            yield item
    finally:
        stopped.set()
        thread.join()


def _produce(
    make: Callable[[], Iterator[Any]],
    items: queue.SimpleQueue[Any],
    room: threading.Semaphore,
    stopped: threading.Event,
) -> None:
    try:
        iterator = make()
        while _has(room, stopped):
            item = next(iterator, _End())
            items.put(item)
            if isinstance(item, _End):
                return
    except BaseException as error:  # raised again where the item is asked for, whatever it is
        items.put(_Failure(error))


def _has(room: threading.Semaphore, stopped: threading.Event) -> bool:
    """Wait for room for one more item; False where nobody wants it any more."""
    while not stopped.is_set():
        if room.acquire(timeout=_PATIENCE_S):
            return not stopped.is_set()
    return False
