"""Why a request is not taken, or not carried on, though nothing is wrong with it."""

from snell.errors import SnellError

__all__ = ["QueueFullError", "RequestTimeoutError", "ShuttingDownError"]


class QueueFullError(SnellError, RuntimeError):
    """As many requests wait as may; the same request may be taken later."""


class RequestTimeoutError(SnellError, TimeoutError):
    """A request took longer than requests may."""


class ShuttingDownError(SnellError, RuntimeError):
    """No more requests are taken; those that were are finished."""
