"""Listener: the application on a socket, until the process is asked to end.

SIGTERM and SIGINT stop it from taking connections; requests that were taken are finished first.
"""

import socket
from typing import cast

import uvicorn
from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp

from snell.llm.server.idle_connections import Connection, IdleConnections

__all__ = ["Listener"]

_BACKLOG = 2048
_IDLE_SECONDS = 30.0
_WATCH_SECONDS = 1


class Listener:
    """Binds at once, so that a port in use is an OSError here; port 0 takes a free one."""

    def __init__(
        self, app: ASGIApp, host: str, port: int, drain_seconds: float, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            # From now on clients wait to be served, and are not refused, while the server is about to run.
            self._socket.listen(_BACKLOG)
        except OSError:
            self._socket.close()
            raise
        # It would end streams at the signal; they are to be finished.
        AppStatus.disable_automatic_graceful_drain()
        self._idle = IdleConnections(idle_seconds)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                backlog=_BACKLOG,
                ws="none",
                log_level="error",  # not a line for every client that sends garbage
                callback_notify=self._end_idle,
                timeout_notify=_WATCH_SECONDS,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=int(drain_seconds) + 1,
            )
        )
        self.host = host
        self.port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        """The base of the interface's paths."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"

    def run(self) -> None:
        """Serve until asked to end."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Ask it to end, from any thread."""
        self._server.should_exit = True

    async def _end_idle(self) -> None:
        self._idle.end_overdue(cast("set[Connection]", self._server.server_state.connections))
