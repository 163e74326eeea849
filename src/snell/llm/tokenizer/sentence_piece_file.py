"""The tokenizer of a folder with a SentencePiece model (``tokenizer.model``) and no ``tokenizer.json``.

The file is a protobuf message, of which these fields are read (``sentencepiece_model.proto`` of
https://github.com/google/sentencepiece; types of tokens are those of GGUF files):

    model      ::= 1: token…, 2: training, 3: normalisation
    token      ::= 1: text, 2: score (f32), 3: type
    training   ::= 3: 1 unigram or 2 BPE, 40: unknown id, 41: BOS id, 42: EOS id
    normalisation ::= 2: table, 3: prefix a space?, 4: merge spaces?
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from snell.errors import FileFormatError, UnsupportedError
from snell.llm.tokenizer.backend import Backend
from snell.llm.tokenizer.neighbours import Json, generation_ends, read_object, token_name
from snell.llm.tokenizer.parts import TokenizerParts
from snell.llm.tokenizer.sentence_piece import SentencePieceBackend
from snell.llm.tokenizer.string_index import MadeIndex
from snell.llm.tokenizer.stripping import Stripping
from snell.llm.tokenizer.token_kind import TokenKind, end_tokens
from snell.llm.tokenizer.unigram import UnigramBackend
from snell.llm.tokenizer.vocabulary import Vocabulary

__all__ = ["sentence_piece_parts"]

_UNIGRAM, _BPE = 1, 2
Value = int | bytes
Token = tuple[str, float, int]


@dataclass(frozen=True, slots=True)
class _Model:
    """What the file holds; ids of -1 mean that there is no such token."""

    tokens: list[Token]
    kind: int
    unknown: int
    bos: int
    eos: int
    table: bytes
    space_prefix: bool
    merge_spaces: bool


def sentence_piece_parts(file: Path) -> tuple[Backend, TokenizerParts]:
    """The backend and the special tokens; ``tokenizer_config.json`` and its neighbours are read where they exist."""
    model = _read(file)
    config = read_object(file.parent / "tokenizer_config.json")
    tokens, stripping = _with_added(model.tokens, config, file)
    vocabulary = _vocabulary(tokens, stripping, {model.eos, *generation_ends(file.parent)})
    if model.kind == _UNIGRAM:
        backend: Backend = UnigramBackend(
            vocabulary, model.unknown, model.table, add_space_prefix=model.space_prefix, merge_spaces=model.merge_spaces
        )
    elif model.kind == _BPE and not model.table and not model.merge_spaces:
        backend = SentencePieceBackend(vocabulary, MadeIndex(), model.space_prefix, prefix_pieces=False)
    else:
        raise UnsupportedError(
            f"{file}: a SentencePiece model of kind {model.kind}, or BPE with a table of characters or merged spaces; "
            "supported are unigram models, and BPE of texts as they are; save the tokenizer as tokenizer.json"
        )
    bos = vocabulary.ids.get(token_name(config, "bos_token"), model.bos if model.bos >= 0 else None)
    eos = vocabulary.ids.get(token_name(config, "eos_token"), model.eos if model.eos >= 0 else None)
    control = vocabulary.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN)
    return backend, TokenizerParts(
        control=control,
        control_ids=frozenset(control.values()),
        prefix=(bos,) if bos is not None and config.get("add_bos_token", model.kind == _BPE) else (),
        suffix=(eos,) if eos is not None and config.get("add_eos_token", model.kind == _UNIGRAM) else (),
        bos_id=bos,
        bos_token="" if bos is None else vocabulary.texts[bos],
        eos_ids=vocabulary.end_ids | ({eos} if eos is not None else frozenset()),
        eos_token="" if eos is None else vocabulary.texts[eos],
        stripping=stripping,
    )


def _with_added(tokens: list[Token], config: Json, file: Path) -> tuple[list[Token], Stripping]:
    """The tokens with those of ``added_tokens_decoder``, and which of them strip white space."""
    tokens, before, after = list(tokens), set[int](), set[int]()
    added = cast("Mapping[str, Any]", config.get("added_tokens_decoder") or {})
    for key in sorted(added, key=int):
        id_, token = int(key), cast("Mapping[str, Any]", added[key])
        if id_ > len(tokens):
            raise FileFormatError(f"{file.parent}: token {id_} was added, but there are only {len(tokens)} before it")
        kind = TokenKind.CONTROL if token.get("special") else TokenKind.USER_DEFINED
        if id_ < len(tokens) and tokens[id_][2] == TokenKind.UNKNOWN:
            kind = TokenKind.UNKNOWN
        tokens[id_ : id_ + 1] = [(str(token.get("content", "")), 0.0, kind)]
        before |= {id_} if token.get("lstrip") else set()
        after |= {id_} if token.get("rstrip") else set()
    return tokens, Stripping(frozenset(before), frozenset(after))


def _vocabulary(tokens: list[Token], stripping: Stripping, ends: set[int]) -> Vocabulary:
    texts = [text for text, _, _ in tokens]
    kinds = np.array([kind for _, _, kind in tokens], np.int32)
    scores = np.array([score for _, score, _ in tokens], np.float32)
    ids = dict(zip(texts, range(len(texts)), strict=True))
    control = {text: id_ for id_, (text, _, kind) in enumerate(tokens) if kind == TokenKind.CONTROL}
    end_ids = end_tokens(ids, control) | {id_ for id_ in ends if 0 <= id_ < len(texts)}
    kinds[sorted(end_ids)] = TokenKind.CONTROL
    return Vocabulary(texts, kinds, scores, ids, frozenset(end_ids), stripping)


def _read(file: Path) -> _Model:
    try:
        groups: dict[int, list[Value]] = {1: [], 2: [], 3: []}
        for field, value in _fields(file.read_bytes()):
            groups.setdefault(field, []).append(value)
        tokens = [_token(value) for value in groups[1]]
        training, normalisation = (dict(_fields(_bytes(groups[field][-1]))) for field in (2, 3))
        model = _Model(
            tokens, _signed(training.get(3, _UNIGRAM)), *(_signed(training.get(40 + n, n)) for n in range(3)),
            _bytes(normalisation.get(2, b"")), bool(normalisation.get(3, 1)), bool(normalisation.get(4, 1)),
        )  # fmt: skip
    except (ValueError, IndexError, struct.error) as error:
        raise FileFormatError(f"{file}: no SentencePiece model, or a damaged one: {error}") from error
    if not 0 <= model.unknown < len(tokens) or max(model.bos, model.eos) >= len(tokens):
        raise FileFormatError(f"{file}: the special tokens are outside of the {len(tokens)} tokens")
    return model


def _token(value: Value) -> Token:
    fields = dict(_fields(_bytes(value)))
    (score,) = struct.unpack("<f", _bytes(fields.get(2, b"\0\0\0\0")))
    return _bytes(fields.get(1, b"")).decode(), score, _signed(fields.get(3, TokenKind.NORMAL))


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Number and value of each field: a whole number, or bytes (https://protobuf.dev/programming-guides/encoding)."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        match tag & 7:
            case 0:
                value, at = _number(message, at)
                yield tag >> 3, value
                continue
            case 1 | 5 as width:
                size = 8 if width == 1 else 4
            case 2:
                size, at = _number(message, at)
            case other:
                raise ValueError(f"a field of the unknown kind {other} at byte {at}")
        if at + size > len(message):
            raise ValueError(f"a field of {size} bytes at byte {at} of {len(message)}")
        yield tag >> 3, message[at : at + size]
        at += size


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes were expected")
    return value


def _signed(value: Value) -> int:
    if not isinstance(value, int):
        raise ValueError("bytes where a number was expected")
    return value - (1 << 64) if value >> 63 else value
