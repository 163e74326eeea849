"""Byte-level byte-pair encoding, as GPT-2 and most models after it use it.

The ``tokenizers`` package cuts texts into words, and merges long texts; short ones are merged by ``Merging``, which is
ready sooner.
"""

from collections.abc import Sequence
from functools import cached_property

import tokenizers
from tokenizers import models, pre_tokenizers

from snell.errors import FileFormatError
from snell.llm.tokenizer.byte_level import spelled_bytes
from snell.llm.tokenizer.merging import Merging, check_merges, merge_pairs
from snell.llm.tokenizer.package_encoding import package_ids
from snell.llm.tokenizer.pre_tokenizers import PreTokenizer
from snell.llm.tokenizer.string_index import StringIndex
from snell.llm.tokenizer.token_kind import TokenKind
from snell.llm.tokenizer.token_matcher import TokenMatcher
from snell.llm.tokenizer.vocabulary import Vocabulary

__all__ = ["BytePairBackend"]

# Merging takes 15 µs a new word and time quadratic in a word's length; building the package's model takes 100 ms.
_LONG_TEXT = 1 << 14
_LONG_WORD = 64


class BytePairBackend:
    """A ``Backend``; ``merges`` are pairs such as ``"Ġ t"``, best first; ``index`` finds them and the tokens."""

    def __init__(self, vocabulary: Vocabulary, merges: Sequence[str], index: StringIndex, cut: PreTokenizer) -> None:
        index.fact("merges", lambda: check_merges(merges))
        self._vocabulary = vocabulary
        self._merges = merges
        self._cut = cut
        self._user_defined = TokenMatcher(vocabulary.of_kind(TokenKind.USER_DEFINED), vocabulary.stripping)
        self._control = vocabulary.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN)
        self._merging = Merging(
            vocabulary.ids, index.table("merges", merges), self._control, ignore_merges=cut.ignore_merges
        )
        splits = [pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated") for pattern in cut.patterns]
        spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._words = pre_tokenizers.Sequence([*splits, spell])

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
                ids.extend(self._encoded(piece))
        return ids

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token spells; a token that is matched whole is its text."""
        text = self._vocabulary.texts[token_id]
        return text.encode() if text in self._control or text in self._user_defined.ids else spelled_bytes(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def _encoded(self, text: str) -> list[int]:
        """Ids of a text without user-defined tokens in it."""
        if len(text) < _LONG_TEXT:
            words = [word for word, _ in self._words.pre_tokenize_str(text)]
            if max(map(len, words), default=0) < _LONG_WORD:
                return [id_ for word in words for id_ in self._merging.ids(word)]
        return package_ids(self._package, text)

    @cached_property
    def _package(self) -> tokenizers.Tokenizer:
        """The package's tokenizer.  Without the control tokens in it, it cannot produce one from text."""
        ids = {text: id_ for text, id_ in self._vocabulary.ids.items() if text not in self._control}
        merges = [merge for merge in self._merges if self._merging.allows(merge)]
        try:
            model = models.BPE(ids, merge_pairs(merges), ignore_merges=self._cut.ignore_merges)
        except Exception as error:  # the package raises bare exceptions
            raise FileFormatError(f"key 'tokenizer.ggml.merges' does not fit the vocabulary: {error}") from error
        package = tokenizers.Tokenizer(model)
        package.pre_tokenizer = self._words
        return package
