"""Settings of a server: what it takes, and for how long."""

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """``name`` is the model's name to clients; ``api_key`` None asks for none.

    Seconds: ``body_seconds`` for a request's body to arrive, ``request_seconds`` for its whole work, ``send_seconds``
    for a client to take a piece of a stream.  ``default_tokens`` holds where a conversation names no limit.
    """

    name: str
    api_key: str | None = None
    body_bytes: int = 4 * 2**20
    body_seconds: float = 30.0
    request_seconds: float = 600.0
    send_seconds: float = 30.0
    default_tokens: int = 1024
