"""BERT's WordPiece from a GGUF vocabulary, in which "▁" marks the tokens that begin a word."""

from collections.abc import Sequence

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from snell.errors import FileFormatError
from snell.llm.tokenizer.package_encoding import package_ids
from snell.llm.tokenizer.token_kind import TokenKind
from snell.llm.tokenizer.vocabulary import Vocabulary

__all__ = ["WordPieceBackend"]

_BEGIN = "▁"
_CONTINUE = "##"
_LONGEST_WORD = 1 << 20  # llama.cpp knows no limit


class WordPieceBackend:
    """A ``Backend``; a word that no tokens spell becomes the unknown token."""

    def __init__(self, vocabulary: Vocabulary, unknown: int, lowercase: bool) -> None:
        if not 0 <= unknown < len(vocabulary.texts):
            raise FileFormatError(f"the unknown token {unknown} is outside of the {len(vocabulary.texts)} tokens")
        self._vocabulary = vocabulary
        special = vocabulary.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN)
        ids = {
            text[1:] if text.startswith(_BEGIN) else _CONTINUE + text: id_
            for text, id_ in vocabulary.ids.items()
            if text not in special
        }
        unknown_text = vocabulary.texts[unknown]
        model = models.WordPiece(
            {**ids, unknown_text: unknown}, unk_token=unknown_text, max_input_chars_per_word=_LONGEST_WORD
        )
        self._words = tokenizers.Tokenizer(model)
        self._words.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        self._words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self._vocabulary.texts)

    def encode(self, text: str, *, begins: bool = True) -> list[int]:
        """Ids of a text, the same wherever it stands."""
        return package_ids(self._words, text)

    def token_bytes(self, token_id: int) -> bytes:
        """The token's text, after a space if it begins a word."""
        return self._vocabulary.texts[token_id].replace(_BEGIN, " ").encode()

    def decode(self, ids: Sequence[int]) -> str:
        """The words of the ids, with a space between any two."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace").removeprefix(" ")
