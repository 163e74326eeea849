"""RequestError: why a request is not answered, in the form that OpenAI's clients expect."""

from typing import Any

from snell.errors import ContextLengthError, SnellError
from snell.llm.serving import QueueFullError, RequestTimeoutError, ShuttingDownError

__all__ = ["RequestError", "request_error_of", "unsupported"]

_STATUS: tuple[tuple[type[Exception], int, str | None], ...] = (
    (QueueFullError, 429, "queue_full"),
    (RequestTimeoutError, 504, "request_timeout"),
    (ShuttingDownError, 503, "shutting_down"),
    (ContextLengthError, 400, "context_length_exceeded"),
)
_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class RequestError(SnellError, ValueError):
    """``param`` names the parameter that is wrong; ``code`` is for programs to read."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def envelope(self) -> dict[str, Any]:
        """The body of the answer."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def request_error_of(error: Exception, names: frozenset[str] = frozenset()) -> RequestError:
    """What an exception is to the client; ``names`` are parameters of the request that a message may begin with."""
    if isinstance(error, RequestError):
        return error
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            return RequestError(status, str(error), code=code)
    if isinstance(error, SnellError):
        named = str(error).partition(":")[0]
        return RequestError(400, str(error), named if named in names else None)
    return RequestError(500, f"the server failed on this request: {type(error).__name__}", code="internal_error")


def unsupported(name: str, instead: str) -> RequestError:
    """A parameter that this server does not have."""
    return RequestError(400, f"{name}: not supported by this server; {instead}", name, "unsupported_parameter")
