"""The tokenizer of a Hugging Face folder: ``tokenizer.json``, and the special tokens its neighbours name.

``tokenizer_config.json``, ``generation_config.json`` and ``config.json`` beside it are read where they exist.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

import tokenizers

from snell.errors import FileFormatError, ModelNotFoundError
from snell.llm.tokenizer.byte_level import spelled_bytes
from snell.llm.tokenizer.neighbours import generation_ends, read_object, token_name
from snell.llm.tokenizer.package_encoding import package_ids
from snell.llm.tokenizer.parts import TokenizerParts
from snell.llm.tokenizer.stripping import Stripping
from snell.llm.tokenizer.token_kind import end_tokens

__all__ = ["HuggingFaceBackend", "hugging_face_parts"]


class HuggingFaceBackend:
    """A ``Backend`` over the ``tokenizers`` package."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        # Files store the padding and truncation of their training; a text is to be encoded as it is.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # the names of control tokens in a text are text
        self._tokenizer = tokenizer
        self._added = {id_: token.content for id_, token in tokenizer.get_added_tokens_decoder().items()}
        decoder = cast("bytes", tokenizer.decoder.__getstate__()) if tokenizer.decoder else b""
        self._byte_level = b"ByteLevel" in decoder
        self._word_piece = b"WordPiece" in decoder
        self._byte_fallback = b"ByteFallback" in decoder

    @cached_property
    def _inside(self) -> tokenizers.Tokenizer:
        """The tokenizer of texts that follow a control token."""
        state = cast("bytes", self._tokenizer.pre_tokenizer.__getstate__()) if self._tokenizer.pre_tokenizer else b""
        if b'"prepend_scheme":"first"' not in state:
            return self._tokenizer
        inside = tokenizers.Tokenizer.from_str(
            self._tokenizer.to_str().replace('"prepend_scheme":"first"', '"prepend_scheme":"never"')
        )
        inside.encode_special_tokens = True
        return inside

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, begins: bool = True) -> list[int]:
        """Ids of a text; files may put a space before the first text of a document only."""
        tokenizer = self._tokenizer if begins else self._inside
        return package_ids(tokenizer, text)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to a text, by the kind of decoder of the file."""
        if token_id in self._added:
            return self._added[token_id].encode()
        token = self._tokenizer.id_to_token(token_id)
        if token is None:  # ids may have holes
            return b""
        if self._byte_level:
            return spelled_bytes(token)
        if self._word_piece:
            return (token[2:] if token.startswith("##") else " " + token).encode()
        if self._byte_fallback and len(token) == 6 and token.startswith("<0x"):
            return bytes([int(token[3:5], 16)])
        return token.replace("▁", " ").encode()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)


def hugging_face_parts(file: Path) -> tuple[HuggingFaceBackend, TokenizerParts]:
    """The backend and the special tokens of a ``tokenizer.json``."""
    if not file.is_file():
        raise ModelNotFoundError(f"{file}: expected a tokenizer.json, found no file at this path")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises bare exceptions
        raise FileFormatError(f"{file}: no tokenizer of the tokenizers package: {error}") from error
    prefix, suffix = _surroundings(tokenizer)
    backend = HuggingFaceBackend(tokenizer)
    added = tokenizer.get_added_tokens_decoder()
    special = {token.content: id_ for id_, token in added.items() if token.special}
    config = read_object(file.parent / "tokenizer_config.json")
    bos, eos = token_name(config, "bos_token") or token_name(config, "cls_token"), token_name(config, "eos_token")
    ends = end_tokens(special, special)
    ends.update(special[name] for name in (eos,) if name in special)
    ends.update(id_ for id_ in generation_ends(file.parent) if id_ < backend.vocab_size)
    return backend, TokenizerParts(
        control=special,
        control_ids=frozenset(special.values()) | ends,
        prefix=prefix,
        suffix=suffix,
        bos_id=special.get(bos),
        bos_token=bos,
        eos_ids=frozenset(ends),
        eos_token=eos,
        stripping=Stripping(
            frozenset(id_ for id_, token in added.items() if token.lstrip),
            frozenset(id_ for id_, token in added.items() if token.rstrip),
        ),
    )


def _surroundings(tokenizer: tokenizers.Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the file's post-processor puts before and after a text, seen on a text of its own."""
    inner = tokenizer.encode("a", add_special_tokens=False)
    outer = tokenizer.encode("a", add_special_tokens=True)
    count = sum(inner.attention_mask)
    ids = [id_ for id_, mask in zip(outer.ids, outer.attention_mask, strict=True) if mask]
    bare = [id_ for id_, mask in zip(inner.ids, inner.attention_mask, strict=True) if mask]
    for start in range(len(ids) - count + 1):
        if ids[start : start + count] == bare:
            return tuple(ids[:start]), tuple(ids[start + count :])
    return (), ()
