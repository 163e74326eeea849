"""A server on a socket for as long as a test needs it, and clients that write their own bytes."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

from snell.llm.server import Listener, Service, application

KEY = "a key"


@contextlib.contextmanager
def serving(service: Service, **settings: float) -> Iterator[Listener]:
    listener = Listener(application(service), "127.0.0.1", 0, 30, **settings)
    thread = threading.Thread(target=listener.run)
    thread.start()
    try:
        yield listener
    finally:
        listener.stop()
        thread.join(30)
        assert not thread.is_alive()


def posted(
    body: bytes,
    content_type: str = "application/json",
    length: int | None = None,
    path: str = "/v1/completions",
    more: str = "",
) -> bytes:
    """The bytes of a request."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n{more}"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
    ).encode() + body


def exchanged(listener: Listener, request: bytes) -> tuple[int, str]:
    """The status and the body of the answer to a request."""
    with socket.create_connection((listener.host, listener.port), 30) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def asked(listener: Listener, path: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of the answer to these parameters."""
    status, body = exchanged(listener, posted(json.dumps(fields).encode(), path=path))
    return status, json.loads(body)
