"""Byte-pair encoding of characters as they are, with "▁" for a space, as Gemma 4 uses it.

Lines are merged as a whole; a character that is no token is spelled as byte tokens. Source: ``LLAMA_VOCAB_PRE_TYPE_GEMMA4``
of https://github.com/ggml-org/llama.cpp/blob/master/src/llama-vocab.cpp.
"""

from collections.abc import Sequence
from functools import cached_property

import tokenizers
from tokenizers import models, pre_tokenizers

from snell.errors import FileFormatError
from snell.llm.tokenizer.merging import check_merges, merge_pairs
from snell.llm.tokenizer.package_encoding import package_ids
from snell.llm.tokenizer.sentence_piece import piece_bytes
from snell.llm.tokenizer.token_kind import TokenKind
from snell.llm.tokenizer.token_matcher import TokenMatcher
from snell.llm.tokenizer.vocabulary import Vocabulary

__all__ = ["RawBytePairBackend"]

_SPACE = "▁"


class RawBytePairBackend:
    """A ``Backend``; ``merges`` are pairs such as ``"▁ t"``, best first."""

    def __init__(self, vocabulary: Vocabulary, merges: Sequence[str]) -> None:
        check_merges(merges)
        self._vocabulary = vocabulary
        self._merges = merges
        self._user_defined = TokenMatcher(vocabulary.of_kind(TokenKind.USER_DEFINED), vocabulary.stripping)

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self._vocabulary.texts)

    def encode(self, text: str, *, begins: bool = True) -> list[int]:
        """Ids of a text, the same wherever it stands."""
        ids: list[int] = []
        for piece in self._user_defined.split(text):
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids.extend(package_ids(self._package, piece.replace(" ", _SPACE)))
        return ids

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to a text."""
        return piece_bytes(self._vocabulary, token_id)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    @cached_property
    def _package(self) -> tokenizers.Tokenizer:
        """The package's tokenizer. Without the control tokens in it, it cannot produce one from text."""
        control = self._vocabulary.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN)
        ids = {text: id_ for text, id_ in self._vocabulary.ids.items() if text not in control}
        merges = [merge for merge in self._merges if merge.replace(" ", "", 1) not in control]
        try:
            model = models.BPE(ids, merge_pairs(merges), byte_fallback=True)
        except Exception as error:  # the package raises bare exceptions
            raise FileFormatError(f"key 'tokenizer.ggml.merges' does not fit the vocabulary: {error}") from error
        package = tokenizers.Tokenizer(model)
        package.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"\n+"), "isolated")
        return package
