"""The tokenizer of a GGUF file: which algorithm its metadata asks for, and what its special tokens mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from snell.deferred import deferred
from snell.errors import FileFormatError, UnsupportedError
from snell.importers.gguf import MetadataValue
from snell.llm.tokenizer.backend import Backend
from snell.llm.tokenizer.parts import TokenizerParts
from snell.llm.tokenizer.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from snell.llm.tokenizer.string_index import StringIndex
from snell.llm.tokenizer.token_kind import TokenKind
from snell.llm.tokenizer.vocabulary import Vocabulary, flag, read_strings, read_vocabulary, special_id

# A file has one kind of tokenizer.
if TYPE_CHECKING:
    from snell.llm.tokenizer import byte_pair, raw_byte_pair, sentence_piece, unigram, word_piece
else:
    byte_pair = deferred("snell.llm.tokenizer.byte_pair")
    raw_byte_pair = deferred("snell.llm.tokenizer.raw_byte_pair")
    sentence_piece = deferred("snell.llm.tokenizer.sentence_piece")
    unigram = deferred("snell.llm.tokenizer.unigram")
    word_piece = deferred("snell.llm.tokenizer.word_piece")

__all__ = ["gguf_parts"]

Metadata = Mapping[str, MetadataValue]

_MODELS = ("bert", "gemma4", "gpt2", "llama", "t5")
_BERT_UNKNOWN = 100
_T5_UNKNOWN = 2


def gguf_parts(metadata: Metadata, index: StringIndex) -> tuple[Backend, TokenizerParts]:
    """The backend and the special tokens."""
    model = metadata.get("tokenizer.ggml.model")
    if model not in _MODELS:
        raise UnsupportedError(f"the tokenizer model {model!r}; supported are {', '.join(_MODELS)}")
    if model == "gpt2":
        cut = _pre_tokenizer(metadata)
        vocabulary = read_vocabulary(metadata, index)
        merges = read_strings(metadata, "tokenizer.ggml.merges")
        backend = byte_pair.BytePairBackend(vocabulary, merges, index, cut)
        return backend, _parts(metadata, vocabulary, add_bos=cut.add_bos)
    vocabulary = read_vocabulary(metadata, index)
    if model == "gemma4":
        raw = raw_byte_pair.RawBytePairBackend(vocabulary, read_strings(metadata, "tokenizer.ggml.merges").to_list())
        return raw, _parts(metadata, vocabulary, add_bos=True)
    if model == "t5":
        return _unigram(metadata, vocabulary), _parts(metadata, vocabulary, add_bos=False, add_eos=True)
    if model == "llama":
        spaced = sentence_piece.SentencePieceBackend(vocabulary, index, flag(metadata, "add_space_prefix", True))
        return spaced, _parts(metadata, vocabulary, add_bos=True)
    unknown = special_id(metadata, "unknown", len(vocabulary.texts))
    lowercase = flag(metadata, "normalizer.lowercase", True)
    words = word_piece.WordPieceBackend(vocabulary, _BERT_UNKNOWN if unknown is None else unknown, lowercase)
    return words, _parts(metadata, vocabulary, add_bos=True, add_separator=True)


def _unigram(metadata: Metadata, vocabulary: Vocabulary) -> Backend:
    unknown = special_id(metadata, "unknown", len(vocabulary.texts))
    charsmap = metadata.get("tokenizer.ggml.precompiled_charsmap")
    if charsmap is not None and not isinstance(charsmap, np.ndarray):
        raise FileFormatError("key 'tokenizer.ggml.precompiled_charsmap': expected an array of bytes")
    return unigram.UnigramBackend(
        vocabulary,
        _T5_UNKNOWN if unknown is None else unknown,
        b"" if charsmap is None else charsmap.tobytes(),
        add_space_prefix=flag(metadata, "add_space_prefix", True),
        merge_spaces=flag(metadata, "remove_extra_whitespaces", False),
    )


def _pre_tokenizer(metadata: Metadata) -> PreTokenizer:
    # Files from before the key existed are read as llama.cpp reads them.
    name = metadata.get("tokenizer.ggml.pre", "default")
    if not isinstance(name, str) or name not in PRE_TOKENIZERS:
        supported = ", ".join(sorted(PRE_TOKENIZERS))
        raise UnsupportedError(f"the pre-tokenizer {name!r} of a byte-level BPE vocabulary; supported are {supported}")
    return PRE_TOKENIZERS[name]


def _parts(
    metadata: Metadata, vocabulary: Vocabulary, *, add_bos: bool, add_eos: bool = False, add_separator: bool = False
) -> TokenizerParts:
    size = len(vocabulary.texts)
    bos, eos = (special_id(metadata, name, size) for name in ("bos", "eos"))
    # BERT's converter writes [CLS] under its own name, and [SEP] under the one with its historical spelling.
    separator = next(
        (id_ for name in ("seperator", "separator") if (id_ := special_id(metadata, name, size)) is not None), None
    )
    if add_separator:
        bos = next((id_ for id_ in (bos, special_id(metadata, "cls", size)) if id_ is not None), None)
    prefix = bos if flag(metadata, "add_bos_token", add_bos) else None
    suffix = eos if flag(metadata, "add_eos_token", add_eos) else None
    if suffix is None and flag(metadata, "add_sep_token", add_separator):
        suffix = separator
    control = vocabulary.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN)
    return TokenizerParts(
        control=control,
        control_ids=frozenset(control.values()),
        prefix=() if prefix is None else (prefix,),
        suffix=() if suffix is None else (suffix,),
        bos_id=bos,
        bos_token="" if bos is None else vocabulary.texts[bos],
        eos_ids=vocabulary.end_ids,
        eos_token="" if eos is None else vocabulary.texts[eos],
        stripping=vocabulary.stripping,
    )
