"""RequestError: why a request is not answered, in the form that OpenAI's clients expect."""

from collections.abc import Mapping
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
_LONGEST = 1000


class RequestError(SnellError, ValueError):
    """``param`` names the parameter that is wrong; ``code`` is for programs to read."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def envelope(self) -> dict[str, Any]:
        """The body of the answer."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        param = None if self.param is None else _told(self.param)
        return {"error": {"message": _told(str(self)), "type": kind, "param": param, "code": self.code}}


def request_error_of(error: Exception, names: Mapping[str, str] | None = None) -> RequestError:
    """What an exception is to the client; a message may begin with one of the names, which stand for parameters."""
    if isinstance(error, RequestError):
        return error
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            return RequestError(status, str(error), code=code)
    if isinstance(error, SnellError):
        named, colon, said = str(error).partition(":")
        param = (names or {}).get(named)
        return RequestError(400, str(error) if param is None else param + colon + said, param)
    return RequestError(500, f"the server failed on this request: {type(error).__name__}", code="internal_error")


def unsupported(name: str, instead: str) -> RequestError:
    """A parameter that this server does not have."""
    return RequestError(400, f"{name}: not supported by this server; {instead}", name, "unsupported_parameter")


def _told(text: str) -> str:
    """What came from the client may be long, and no Unicode text."""
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
