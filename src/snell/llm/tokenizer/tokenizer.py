"""A model's tokenizer: text to token ids and back, whatever algorithm stands behind it.

Invariants: a text never yields a control token unless ``parse_special`` is set; with ``add_special`` the ids begin
with exactly one BOS where the model wants one; every id that ends a text or a turn is in ``eos_ids``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from snell.deferred import deferred
from snell.errors import ConfigError, OutOfRangeError
from snell.importers.gguf import MetadataValue
from snell.llm.tokenizer.backend import Backend
from snell.llm.tokenizer.gguf import gguf_parts
from snell.llm.tokenizer.parts import TokenizerParts
from snell.llm.tokenizer.string_index import MadeIndex, StringIndex
from snell.llm.tokenizer.token_matcher import TokenMatcher

if TYPE_CHECKING:
    from snell.llm.tokenizer import hugging_face, sentence_piece_file
else:
    hugging_face = deferred("snell.llm.tokenizer.hugging_face")
    sentence_piece_file = deferred("snell.llm.tokenizer.sentence_piece_file")

__all__ = ["Tokenizer"]

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, eq=False)
class Tokenizer:
    """Made by ``from_gguf`` or ``from_file``.

    ``bos_id`` is None where the model has no such token; ``eos_ids`` are all ids that end a text or a turn.
    """

    backend: Backend
    parts: TokenizerParts
    _control: TokenMatcher

    @classmethod
    def from_parts(cls, backend: Backend, parts: TokenizerParts) -> Tokenizer:
        """Put a backend and the meaning of its special tokens together."""
        return cls(backend, parts, TokenMatcher(parts.control, parts.stripping))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, MetadataValue], index: StringIndex | None = None) -> Tokenizer:
        """The tokenizer that a GGUF file's metadata describes; an unknown kind is an ``UnsupportedError``.

        ``index`` finds tokens by their texts; it may be one that keeps what it makes.
        """
        return cls.from_parts(*gguf_parts(metadata, index or MadeIndex()))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer of a ``tokenizer.json``, of a SentencePiece ``tokenizer.model``, or of the folder of either."""
        file = Path(path)
        if file.is_dir():
            model = file / "tokenizer.model"
            file = model if model.is_file() and not (file / "tokenizer.json").is_file() else file / "tokenizer.json"
        if file.suffix == ".model" and file.is_file():
            return cls.from_parts(*sentence_piece_file.sentence_piece_parts(file))
        return cls.from_parts(*hugging_face.hugging_face_parts(file))

    @property
    def bos_id(self) -> int | None:
        """The token that begins a document."""
        return self.parts.bos_id

    @property
    def eos_ids(self) -> frozenset[int]:
        """Every token that ends a document or a turn."""
        return self.parts.eos_ids

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.backend.vocab_size

    @property
    def control_tokens(self) -> Mapping[str, int]:
        """Texts and ids of the tokens that no message may contain."""
        return self._control.ids

    @property
    def bos_token(self) -> str:
        """Text of the BOS token for a chat template; "" if there is none."""
        return self.parts.bos_token

    @property
    def eos_token(self) -> str:
        """Text of the model's principal EOS token for a chat template; "" if there is none."""
        return self.parts.eos_token

    def is_control(self, token_id: int) -> bool:
        """Whether the id is a control token."""
        return token_id in self.parts.control_ids

    def encode(self, text: str, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Token ids of the text.

        ``add_special`` adds what the model wants around a text (BOS, or BERT's [CLS] and [SEP]), each only where the
        text does not bring it; ``parse_special`` reads the names of control tokens in the text as those tokens.
        """
        return self.encode_pieces(self.split_control(text) if parse_special else [text], add_special)

    def split_control(self, text: str) -> Iterator[str | int]:
        """The text in order: ids of the control tokens that it names, and the pieces between them."""
        return self._control.split(text)

    def encode_pieces(self, pieces: Iterable[str | int], add_special: bool = True) -> list[int]:
        """Token ids of control tokens, given as ids, and of texts between them."""
        ids: list[int] = []
        for piece in pieces:
            if isinstance(piece, int):
                ids.append(piece)
            elif piece:
                ids.extend(self.backend.encode(_unicode(piece), begins=not ids))
        if not add_special:
            return ids
        prefix, suffix = list(self.parts.prefix), list(self.parts.suffix)
        if prefix and ids[: len(prefix)] == prefix:
            prefix = []
        if suffix and ids[-len(suffix) :] == suffix:
            suffix = []
        return prefix + ids + suffix

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """The text of the ids; incomplete UTF-8 becomes U+FFFD (``text_stream`` decodes piece by piece instead)."""
        for id_ in ids:
            self._check(id_)
        return self.backend.decode([id_ for id_ in ids if not (skip_special and self.is_control(id_))])

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to a text; a control token's are those of its name."""
        self._check(token_id)
        return self.backend.token_bytes(token_id)

    def _check(self, token_id: int) -> None:
        if not 0 <= token_id < self.vocab_size:
            raise OutOfRangeError(f"expected a token id from 0 to {self.vocab_size - 1}, received {token_id}")


def _unicode(text: str) -> str:
    """The text, where it is one: half of a pair of surrogates has no bytes in UTF-8, so no token can spell it."""
    if text.isascii() or not (found := _SURROGATE.search(text)):
        return text
    raise ConfigError(
        f"expected a text of Unicode characters, received the lone surrogate {found[0]!r} at place {found.start()}; "
        "it was decoded from something that is no UTF-8: decode it with errors='replace'"
    )
