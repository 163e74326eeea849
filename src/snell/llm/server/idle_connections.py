"""IdleConnections: ends connections whose request does not arrive, so that they cannot be collected without end.

The web server itself gives a first request all the time that it wants, and a further one for each byte of it.
"""

import time
from collections.abc import Callable, Iterable
from typing import Protocol

__all__ = ["Connection", "IdleConnections"]


class _Cycle(Protocol):
    response_complete: bool


class _Transport(Protocol):
    def abort(self) -> None: ...


class Connection(Protocol):
    """A connection of the web server; ``cycle`` is its last request, None before the first one."""

    @property
    def cycle(self) -> _Cycle | None: ...

    @property
    def transport(self) -> _Transport: ...


class IdleConnections:
    """``end_overdue`` is to be called every few seconds with all connections."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._since: dict[Connection, tuple[_Cycle | None, float]] = {}

    def end_overdue(self, connections: Iterable[Connection]) -> None:
        """End those that have been without a request since too long."""
        now, before = self._clock(), self._since
        self._since = {}
        for connection in connections:
            cycle = connection.cycle
            if cycle is not None and not cycle.response_complete:
                continue
            last, since = before.get(connection, (cycle, now))
            # Another request came and was answered in between.
            since = since if last is cycle else now
            if now - since > self._seconds:
                connection.transport.abort()
            else:
                self._since[connection] = (cycle, since)
