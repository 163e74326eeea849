"""Text that appears token by token: complete characters only, and nothing of a stop string.

A token may end inside of a UTF-8 character, and a stop string may begin in one token and end in another. ``push``
returns what can be shown already; ``finish`` returns the rest, in which an incomplete character becomes U+FFFD. The
pieces joined are the text of all tokens up to the first stop string.
"""

import codecs
from collections.abc import Collection, Sequence
from typing import Protocol

from snell.errors import ConfigError

__all__ = ["TextStream", "TokenSource"]


class TokenSource(Protocol):
    """The part of a ``Tokenizer`` that a stream needs."""

    def token_bytes(self, token_id: int, /) -> bytes:
        """The bytes that the token adds to a text."""
        ...

    def is_control(self, token_id: int, /) -> bool:
        """Whether the token is no text."""
        ...


class TextStream:
    """One text in the making; ``stopped_by`` is the stop string that was found, or None.

    Control tokens are no text, with ``skip_special``, but for those ``shown``.
    """

    def __init__(
        self,
        tokens: TokenSource,
        stop: Sequence[str] = (),
        *,
        skip_special: bool = True,
        shown: Collection[int] = (),
    ) -> None:
        if any(not text for text in stop):
            raise ConfigError("a stop string must not be empty: it would end every text at once")
        self._tokens = tokens
        self._stop = tuple(stop)
        self._skip_special = skip_special
        self._shown = shown
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stopped_by: str | None = None

    def push(self, token_id: int) -> str:
        """The text that this token makes certain; "" after a stop string."""
        if self._skip_special and self._tokens.is_control(token_id) and token_id not in self._shown:
            return ""
        return self._take(self._decoder.decode(self._tokens.token_bytes(token_id)), final=False)

    def finish(self) -> str:
        """What was held back, at the end of the text."""
        return self._take(self._decoder.decode(b"", final=True), final=True)

    def _take(self, text: str, *, final: bool) -> str:
        if self.stopped_by is not None:
            return ""
        self._held += text
        found = [(at, -len(stop), stop) for stop in self._stop if (at := self._held.find(stop)) >= 0]
        if found:
            end, _, self.stopped_by = min(found)
        else:
            end = len(self._held) - (0 if final else self._begun())
        shown, self._held = self._held[:end], self._held[end:]
        return shown

    def _begun(self) -> int:
        """Length of the longest end of the held text with which a stop string begins."""
        longest = max((len(stop) - 1 for stop in self._stop), default=0)
        lengths = range(min(longest, len(self._held)), 0, -1)
        return next((n for n in lengths if any(stop.startswith(self._held[-n:]) for stop in self._stop)), 0)
