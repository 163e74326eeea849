"""The vocabulary of a GGUF file: texts, kinds and scores of the tokens, and the ids with a meaning.

``read_vocabulary`` takes a file's metadata; a missing or ill-typed key is a ``FileFormatError`` that names it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snell.errors import FileFormatError
from snell.importers.gguf import MetadataValue, StringArray
from snell.llm.tokenizer.string_index import StringIndex
from snell.llm.tokenizer.stripping import Stripping, gguf_stripping
from snell.llm.tokenizer.token_kind import TokenKind, end_tokens

__all__ = ["Vocabulary", "flag", "read_strings", "read_vocabulary", "special_id"]

Metadata = Mapping[str, MetadataValue]


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Tokens by id; ``ids`` has every text, ``end_ids`` are the tokens that end a text or a turn."""

    texts: Sequence[str]
    kinds: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    ids: Mapping[str, int]
    end_ids: frozenset[int]
    stripping: Stripping

    def of_kind(self, *kinds: TokenKind) -> dict[str, int]:
        """Text to id of all tokens of these kinds."""
        chosen = np.flatnonzero(np.isin(self.kinds, kinds)).tolist()
        return {self.texts[id_]: id_ for id_ in chosen}


def read_vocabulary(metadata: Metadata, index: StringIndex) -> Vocabulary:
    """The vocabulary that ``tokenizer.ggml.*`` describes."""
    texts = read_strings(metadata, "tokenizer.ggml.tokens")
    ids = index.table("tokens", texts)
    kinds = _numbers(metadata, "tokenizer.ggml.token_type", len(texts), TokenKind.NORMAL).astype(np.int32)
    scores = _numbers(metadata, "tokenizer.ggml.scores", len(texts), 0).astype(np.float32)
    control = {texts[id_]: id_ for id_ in np.flatnonzero(kinds == TokenKind.CONTROL).tolist()}
    ends = end_tokens(ids, control)
    for name in ("eos", "eot", "eom"):
        id_ = special_id(metadata, name, len(texts))
        ends |= set() if id_ is None else {id_}
    # Files whose end-of-turn token is marked as ordinary text are common.
    kinds[sorted(ends)] = TokenKind.CONTROL
    special_kinds = (TokenKind.CONTROL, TokenKind.USER_DEFINED, TokenKind.UNKNOWN)
    special = {texts[id_]: id_ for id_ in np.flatnonzero(np.isin(kinds, special_kinds)).tolist()}
    return Vocabulary(texts, kinds, scores, ids, frozenset(ends), gguf_stripping(metadata, ids, special))


def read_strings(metadata: Metadata, key: str) -> StringArray:
    """An array of strings that has to be there."""
    value = metadata.get(key)
    if not isinstance(value, StringArray):
        found = "is missing" if value is None else f"is {type(value).__name__}"
        raise FileFormatError(f"key {key!r}: expected an array of strings, but it {found}; convert the model again")
    return value


def special_id(metadata: Metadata, name: str, vocab_size: int) -> int | None:
    """The id under ``tokenizer.ggml.<name>_token_id``; None if there is none."""
    key = f"tokenizer.ggml.{name}_token_id"
    id_ = metadata.get(key)
    if id_ is None:
        return None
    if not isinstance(id_, int) or not 0 <= id_ < vocab_size:
        raise FileFormatError(f"key {key!r}: expected a token id below {vocab_size}, received {id_!r}")
    return id_


def flag(metadata: Metadata, key: str, default: bool) -> bool:
    """A boolean key of the tokenizer, or the default."""
    value = metadata.get(f"tokenizer.ggml.{key}", default)
    if not isinstance(value, bool):
        raise FileFormatError(f"key 'tokenizer.ggml.{key}': expected a boolean, received {value!r}")
    return value


def _numbers(metadata: Metadata, key: str, count: int, default: int) -> npt.NDArray[np.generic]:
    value = metadata.get(key)
    if value is None:
        return np.full(count, default, np.int32)
    if not isinstance(value, np.ndarray) or value.size != count:
        raise FileFormatError(f"key {key!r}: expected an array of {count} numbers, one for each token")
    return value
