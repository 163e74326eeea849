"""SentencePiece's byte-pair encoding by scores, as llama.cpp does it for the tokenizer model ``llama``.

A text is cut into characters; of all neighbours whose joint text is a token, those with the best score (the leftmost
among equals) are joined, until none is left; what then is no token is spelled as byte tokens. Spaces are written "▁".
Source: ``llm_tokenizer_spm_session`` of llama.cpp and https://github.com/google/sentencepiece (``bpe_model.cc``).
"""

import heapq
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from snell.errors import FileFormatError
from snell.llm.tokenizer.string_index import StringIndex
from snell.llm.tokenizer.token_kind import TokenKind
from snell.llm.tokenizer.token_matcher import TokenMatcher
from snell.llm.tokenizer.vocabulary import Vocabulary

__all__ = ["SentencePieceBackend", "byte_ids", "piece_bytes"]

_SPACE = "▁"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE_INSIDE = re.compile(f"[^{_SPACE}\0]{_SPACE}")
_WORD = re.compile(f"{_SPACE}*[^{_SPACE}]+|{_SPACE}+")
_CACHED_WORDS = 1 << 14


class SentencePieceBackend:
    """A ``Backend``; with ``add_space_prefix`` a text begins as if a space stood before it.

    With ``prefix_pieces`` so does each text that follows a special token, as in llama.cpp.
    """

    def __init__(
        self, vocabulary: Vocabulary, index: StringIndex, add_space_prefix: bool, *, prefix_pieces: bool = True
    ) -> None:
        self._vocabulary = vocabulary
        self._add_space_prefix = add_space_prefix
        self._prefix_pieces = add_space_prefix and prefix_pieces
        self._prefix_text = add_space_prefix and not prefix_pieces
        self._user_defined = TokenMatcher(vocabulary.of_kind(TokenKind.USER_DEFINED), vocabulary.stripping)
        self._byte_ids = byte_ids(vocabulary)
        unknown = next(iter(vocabulary.of_kind(TokenKind.UNKNOWN).values()), None)
        if unknown is None and self._byte_ids is None:
            raise FileFormatError("the vocabulary has neither an unknown token nor a token for every byte")
        self._unknown = unknown
        # Tokens that text must not become are no result of a merge.
        self._excluded = vocabulary.of_kind(TokenKind.BYTE, TokenKind.CONTROL, TokenKind.UNKNOWN)
        self._scores = memoryview(np.ascontiguousarray(vocabulary.scores, np.float32))
        # Where no token has a space behind another character, no merge crosses the start of a word, so that words can
        # be merged on their own and remembered.
        self._by_word = index.fact("words", self._merges_within_words)
        self._merged = lru_cache(_CACHED_WORDS)(self._merge)

    def _merges_within_words(self) -> bool:
        texts = (text for text in self._vocabulary.ids if text not in self._excluded)
        return _SPACE_INSIDE.search("\0".join(texts)) is None

    def _id(self, text: str) -> int | None:
        """The token of a text that a text may become."""
        return None if text in self._excluded else self._vocabulary.ids.get(text)

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self._vocabulary.texts)

    def encode(self, text: str, *, begins: bool = True) -> list[int]:
        """Ids of a text."""
        if begins and text and self._prefix_text:
            text = " " + text
        ids: list[int] = []
        for piece in self._user_defined.split(text):
            if isinstance(piece, int):
                ids.append(piece)
                continue
            escaped = (_SPACE if self._prefix_pieces else "") + piece.replace(" ", _SPACE)
            for word in _WORD.findall(escaped) if self._by_word else [escaped]:
                ids.extend(self._merged(word))
        return ids if self._byte_ids is not None else self._fused(ids)

    def _fused(self, ids: list[int]) -> list[int]:
        """Unknown tokens side by side are one."""
        return [id_ for place, id_ in enumerate(ids) if id_ != self._unknown or ids[place - 1 : place] != [id_]]

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to a text."""
        return piece_bytes(self._vocabulary, token_id)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, without the space that encoding put before it."""
        text = b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self._add_space_prefix else text

    def _merge(self, word: str) -> tuple[int, ...]:
        pieces: list[str] = list(word)
        before, after = list(range(-1, len(pieces) - 1)), [*range(1, len(pieces)), -1]
        queue: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left >= 0 and right >= 0:
                joint = pieces[left] + pieces[right]
                id_ = self._id(joint)
                if id_ is not None:
                    heapq.heappush(queue, (-self._scores[id_], left, right, joint))

        for left in range(len(pieces) - 1):
            offer(left, left + 1)
        while queue:
            _, left, right, joint = heapq.heappop(queue)
            # One of the two has been joined with another piece since.
            if not pieces[left] or not pieces[right] or pieces[left] + pieces[right] != joint:
                continue
            pieces[left], pieces[right] = joint, ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            offer(before[left], left)
            offer(left, after[left])
        return tuple(id_ for piece in pieces if piece for id_ in self._spelled(piece))

    def _spelled(self, piece: str) -> list[int]:
        id_ = self._id(piece)
        if id_ is not None:
            return [id_]
        if self._byte_ids is not None:
            return [self._byte_ids[byte] for byte in piece.encode(errors="replace")]
        return [] if self._unknown is None else [self._unknown]


def piece_bytes(vocabulary: Vocabulary, token_id: int) -> bytes:
    """The bytes that a token adds to a text, in any vocabulary that writes spaces as "▁"."""
    text, kind = vocabulary.texts[token_id], vocabulary.kinds[token_id]
    if kind == TokenKind.BYTE and (spelled := _BYTE_TOKEN.fullmatch(text)):
        return bytes([int(spelled[1], 16)])
    if kind in (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED):
        return text.encode()
    return text.replace(_SPACE, " ").encode()


def byte_ids(vocabulary: Vocabulary) -> dict[int, int] | None:
    """The token of each byte; None where the vocabulary has not one for every byte."""
    tokens = vocabulary.of_kind(TokenKind.BYTE)
    ids = {int(text[3:5], 16): id_ for text, id_ in tokens.items() if _BYTE_TOKEN.fullmatch(text)}
    return ids if len(ids) == 256 else None
