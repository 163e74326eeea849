"""What a ``Tokenizer`` needs of the algorithm behind it."""

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Backend"]


class Backend(Protocol):
    """Text to ids and back. Invariant: no text is ever encoded into a control token."""

    @property
    def vocab_size(self) -> int:
        """Number of ids, those of control tokens included."""
        ...

    def encode(self, text: str, *, begins: bool = True) -> list[int]:
        """Ids of a text that begins a document, or else follows a control token."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to a text."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids from the start of a document; bytes that are no UTF-8 become U+FFFD."""
        ...
