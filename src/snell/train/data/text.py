"""Text as training data: vocabularies of characters or bytes, and windows whose targets are the next tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from snell.errors import ConfigError, OutOfRangeError, ShapeError
from snell.train.data.source import Indices, RowSource

__all__ = ["ByteVocabulary", "CharacterVocabulary", "TextWindows"]

Tokens = np.ndarray[Any, np.dtype[Any]]


@final
@dataclass(frozen=True, slots=True)
class ByteVocabulary:
    """The 256 bytes of UTF-8: every text has tokens."""

    @property
    def size(self) -> int:
        return 256

    def encode(self, text: str) -> Tokens:
        """u8 (n,)."""
        return np.frombuffer(text.encode(), np.uint8)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text; bytes that are no UTF-8 show as replacement characters."""
        return bytes(int(token) for token in tokens).decode(errors="replace")


@final
@dataclass(frozen=True, slots=True)
class CharacterVocabulary:
    """The characters of a text, numbered in order of their code points."""

    characters: str

    @staticmethod
    def of(text: str) -> CharacterVocabulary:
        """Every character that occurs."""
        return CharacterVocabulary("".join(sorted(set(text))))

    @property
    def size(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> Tokens:
        """i32 (n,).  OutOfRangeError, naming it, for a character that is not in the vocabulary."""
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        known = np.frombuffer(self.characters.encode("utf-32-le"), np.uint32)
        found = np.searchsorted(known, points)
        inside = np.minimum(found, max(0, len(known) - 1))
        wrong = points[known[inside] != points] if len(known) else points
        if len(wrong):
            raise OutOfRangeError(f"{chr(int(wrong[0]))!r} is none of the {self.size} characters of the vocabulary")
        return found.astype(np.int32)

    def decode(self, tokens: Iterable[int]) -> str:
        return "".join(self.characters[int(token)] for token in tokens)


@final
@dataclass(frozen=True, slots=True, eq=False)
class TextWindows(RowSource):
    """Windows of `length` tokens and, as targets, the tokens that follow each: (inputs, targets), i32 (batch, length).

    A window begins every `stride` tokens (by default every `length`, so that a token is in one window); with a stride of 1
    and a key, an epoch goes through all windows in random order.  Tokens may be memory-mapped.
    """

    tokens: Tokens | Sequence[int]
    length: int
    stride: int | None = None

    def __post_init__(self) -> None:
        if self.length < 1 or (self.stride is not None and self.stride < 1):
            raise ConfigError(f"expected length and stride of at least 1, received {self.length} and {self.stride}")
        if len(self.tokens) <= self.length:
            raise ShapeError(f"{len(self.tokens)} tokens have no window of {self.length} with a token that follows it")

    @property
    def count(self) -> int:
        return (len(self.tokens) - self.length - 1) // (self.stride or self.length) + 1

    def gather(self, indices: Indices) -> Any:
        starts = np.asarray(indices)[:, None] * (self.stride or self.length)
        windows = np.asarray(self.tokens)[starts + np.arange(self.length + 1)].astype(np.int32)
        return np.ascontiguousarray(windows[:, :-1]), np.ascontiguousarray(windows[:, 1:])
