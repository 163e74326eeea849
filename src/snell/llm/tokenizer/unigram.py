"""SentencePiece's unigram model: of all ways to cut a text into tokens, the one with the largest sum of scores.

A text is normalised by the table of the vocabulary, spaces become "▁", and what no token spells is spelled as bytes, or is
the unknown token where a vocabulary has no tokens for them.
Source: https://arxiv.org/abs/1804.10959; ``llm_tokenizer_ugm_session`` of llama.cpp for how spaces are treated.
"""

from collections.abc import Sequence
from functools import cached_property

import tokenizers
from tokenizers import models

from snell.llm.tokenizer.character_map import CharacterMap
from snell.llm.tokenizer.package_encoding import package_encoding
from snell.llm.tokenizer.sentence_piece import byte_ids, piece_bytes
from snell.llm.tokenizer.token_kind import TokenKind
from snell.llm.tokenizer.token_matcher import TokenMatcher
from snell.llm.tokenizer.vocabulary import Vocabulary

__all__ = ["UnigramBackend"]

_SPACE = "▁"
# A noncharacter: with it before their names, control tokens are in no text.
_NEVER = "\U0010ffff"


class UnigramBackend:
    """A ``Backend``; ``charsmap`` is SentencePiece's precompiled table (empty: texts stay as they are)."""

    def __init__(
        self, vocabulary: Vocabulary, unknown: int, charsmap: bytes, *, add_space_prefix: bool, merge_spaces: bool
    ) -> None:
        self._vocabulary = vocabulary
        self._unknown = unknown
        self._add_space_prefix, self._merge_spaces = add_space_prefix, merge_spaces
        self._user_defined = TokenMatcher(vocabulary.of_kind(TokenKind.USER_DEFINED), vocabulary.stripping)
        self._map = CharacterMap(charsmap) if charsmap else None
        self._bytes = byte_ids(vocabulary)

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self._vocabulary.texts)

    def encode(self, text: str, *, begins: bool = True) -> list[int]:
        """Ids of a text, the same wherever it stands."""
        texts = self._vocabulary.texts
        pieces = self._user_defined.split(text)
        normal = "".join(texts[piece] if isinstance(piece, int) else self._normalized(piece) for piece in pieces)
        spaced = self._spaced(normal)
        encoding = package_encoding(self._package, spaced)
        if self._bytes is None or self._unknown not in encoding.ids:
            return encoding.ids
        return [
            id_
            for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
            for id_ in (self._spelled(spaced[start:end]) if token == self._unknown else [token])
        ]

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to a text."""
        return piece_bytes(self._vocabulary, token_id)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, without the space that encoding put before it."""
        text = b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self._add_space_prefix else text

    def _spelled(self, text: str) -> list[int]:
        return [] if self._bytes is None else [self._bytes[byte] for byte in text.encode()]

    def _normalized(self, text: str) -> str:
        return text if self._map is None else self._map.normalized(text)

    def _spaced(self, text: str) -> str:
        if self._merge_spaces:
            return "".join(_SPACE + word for word in text.split(" ") if word)
        return (" " + text if self._add_space_prefix and text else text).replace(" ", _SPACE)

    @cached_property
    def _package(self) -> tokenizers.Tokenizer:
        vocabulary = self._vocabulary
        kinds, scores = vocabulary.kinds.tolist(), vocabulary.scores.tolist()
        hidden = (TokenKind.CONTROL, TokenKind.BYTE)
        rows = [
            (_NEVER + text if kind in hidden else text, 0.0 if kind == TokenKind.USER_DEFINED else score)
            for text, kind, score in zip(vocabulary.texts, kinds, scores, strict=True)
        ]
        rows[self._unknown] = (_NEVER + vocabulary.texts[self._unknown], 0.0)
        return tokenizers.Tokenizer(models.Unigram(rows, self._unknown, False))
