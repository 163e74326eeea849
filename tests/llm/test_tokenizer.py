"""Tokenizers: the ids that llama.cpp and Hugging Face give, and text that stays text."""

import json
import struct
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.texts import texts
from tests.models import gemma_path, llama_cpp_models, minilm_path, smollm2_path
from transformers import AutoTokenizer

from snell.errors import FileFormatError, ModelNotFoundError, OutOfRangeError, UnsupportedError
from snell.importers.gguf import StringArray, read_gguf
from snell.llm.tokenizer import Tokenizer
from snell.llm.tokenizer.stripping import Stripping
from snell.llm.tokenizer.token_matcher import TokenMatcher

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="▁")
VOCABULARIES = [
    "bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "llama-bpe", "llama-spm", "mpt",
    "phi-3", "qwen2", "qwen35", "refact", "starcoder",
]  # fmt: skip


@cache
def smollm2() -> Tokenizer:
    return Tokenizer.from_gguf(read_gguf(smollm2_path()).metadata)


@cache
def gemma() -> Tokenizer:
    return Tokenizer.from_gguf(read_gguf(gemma_path()).metadata)


@cache
def minilm() -> Tokenizer:
    return Tokenizer.from_file(minilm_path())


@cache
def llama_cpp(name: str) -> Tokenizer:
    return Tokenizer.from_gguf(read_gguf(llama_cpp_models() / f"ggml-vocab-{name}.gguf").metadata)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_text_of_llama_cpp_gets_the_ids_of_llama_cpp(name: str) -> None:
    folder = llama_cpp_models()
    texts = (folder / f"ggml-vocab-{name}.gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    answers = (folder / f"ggml-vocab-{name}.gguf.out").read_text().splitlines()
    assert len(answers) >= 40
    for text, answer in zip(texts, answers, strict=False):
        assert llama_cpp(name).encode(text, add_special=False) == [int(word) for word in answer.split()], repr(text)


def test_smollm2_encodes_the_known_sentence() -> None:
    assert smollm2().encode("The capital of France is") == [504, 3575, 282, 4649, 314]


def test_gemma_encodes_the_known_sentence() -> None:
    assert gemma().encode("The capital of France is") == [2, 818, 5279, 529, 7001, 563]


def test_minilm_encodes_the_known_sentence() -> None:
    assert minilm().encode("A man is eating food.") == [101, 1037, 2158, 2003, 5983, 2833, 1012, 102]


@settings(deadline=None)  # the first example opens both tokenizers
@given(st.text(max_size=40))
def test_minilm_gives_the_ids_of_transformers(text: str) -> None:
    assert minilm().encode(text) == _transformers_minilm()(text)["input_ids"]


@cache
def _transformers_minilm():  # type: ignore[no-untyped-def]
    return AutoTokenizer.from_pretrained(minilm_path())


@pytest.mark.parametrize("tokenizer", [gemma, lambda: llama_cpp("llama-bpe"), lambda: llama_cpp("llama-spm")])
@settings(deadline=None)
@given(text=st.text(alphabet=CHARACTERS, max_size=60))
def test_any_text_is_read_back(tokenizer, text: str) -> None:  # type: ignore[no-untyped-def]
    assert tokenizer().decode(tokenizer().encode(text)) == text


@pytest.mark.parametrize(
    "tokenizer", [smollm2, gemma, minilm, lambda: llama_cpp("llama-spm"), lambda: llama_cpp("llama-bpe")]
)
def test_no_name_of_a_control_token_in_a_text_becomes_that_token(tokenizer) -> None:  # type: ignore[no-untyped-def]
    control = tokenizer().control_tokens
    assert control
    for name in list(control)[:300]:
        ids = tokenizer().encode(f"a {name}b{name}", add_special=False)
        assert not {id_ for id_ in ids if tokenizer().is_control(id_)} - _unknown(tokenizer()), name


def _unknown(tokenizer: Tokenizer) -> set[int]:
    return {id_ for name, id_ in tokenizer.control_tokens.items() if "unk" in name.lower()}


def test_with_parse_special_the_name_of_a_control_token_is_that_token() -> None:
    ids = smollm2().encode("<|im_start|>user<|im_end|>", parse_special=True)
    assert (ids[0], ids[-1]) == (1, 2)
    assert smollm2().decode(ids) == "user"
    assert smollm2().decode(ids, skip_special=False) == "<|im_start|>user<|im_end|>"


@pytest.mark.parametrize("text", ["<bos>hello", "hello"])
def test_a_text_begins_with_exactly_one_bos(text: str) -> None:
    ids = gemma().encode(text, parse_special=True)
    assert ids[0] == gemma().bos_id
    assert ids.count(2) == 1


def test_a_byte_that_the_vocabulary_lacks_is_dropped_as_in_llama_cpp() -> None:
    assert smollm2().decode(smollm2().encode("a\x06b")) == "ab"


def test_without_add_special_no_bos_is_added() -> None:
    assert 2 not in gemma().encode("hello", add_special=False)


def test_every_token_that_ends_a_turn_is_an_eos() -> None:
    assert smollm2().eos_ids == {0, 2}
    assert gemma().eos_ids == {1, 106}


def test_a_html_tag_that_looks_like_an_eos_is_none() -> None:
    (id_,) = gemma().encode("</s>", add_special=False)
    assert id_ not in gemma().eos_ids


@pytest.mark.parametrize("tokenizer", [smollm2, gemma, minilm])
def test_the_bytes_of_the_tokens_are_the_text(tokenizer) -> None:  # type: ignore[no-untyped-def]
    text = "an emoji 🌍 and a tab"
    joined = b"".join(map(tokenizer().token_bytes, tokenizer().encode(text, add_special=False)))
    if tokenizer is minilm:
        assert joined.decode() == " an emoji[UNK] and a tab"
    else:
        assert joined.decode() == text


@pytest.mark.parametrize("token_id", [-1, 49152])
def test_an_id_outside_of_the_vocabulary_is_an_error(token_id: int) -> None:
    with pytest.raises(OutOfRangeError, match="49151"):
        smollm2().token_bytes(token_id)
    with pytest.raises(OutOfRangeError, match="49151"):
        smollm2().decode([token_id])


def test_an_unknown_model_or_pre_tokenizer_is_named_with_those_supported() -> None:
    metadata = dict(read_gguf(smollm2_path()).metadata)
    with pytest.raises(UnsupportedError, match=r"'rwkv'.*gpt2"):
        Tokenizer.from_gguf({**metadata, "tokenizer.ggml.model": "rwkv"})
    with pytest.raises(UnsupportedError, match=r"'unheard-of'.*smollm"):
        Tokenizer.from_gguf({**metadata, "tokenizer.ggml.pre": "unheard-of"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokenizer.ggml.tokens", None),
        ("tokenizer.ggml.merges", 3),
        ("tokenizer.ggml.token_type", np.zeros(3, np.int32)),
        ("tokenizer.ggml.bos_token_id", 10**6),
        ("tokenizer.ggml.add_bos_token", 1),
    ],
)
def test_an_ill_formed_key_is_named(key: str, value: object) -> None:
    metadata = {**read_gguf(smollm2_path()).metadata, key: value}
    with pytest.raises(FileFormatError, match=key):
        Tokenizer.from_gguf(metadata)  # type: ignore[arg-type]


def test_a_folder_without_a_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"tokenizer\.json"):
        Tokenizer.from_file(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FileFormatError, match=r"tokenizer\.json"):
        Tokenizer.from_file(tmp_path)


@given(st.lists(st.sampled_from(["<a>", "<ab>", "<", "a>", "x", "\n"])))
def test_the_pieces_of_a_match_joined_are_the_text(parts: list[str]) -> None:
    names = {"<a>": 0, "<ab>": 1, "\n": 2, "\n\n": 3}
    by_id = {id_: name for name, id_ in names.items()}
    pieces = list(TokenMatcher(names).split("".join(parts)))
    assert "".join(by_id[piece] if isinstance(piece, int) else piece for piece in pieces) == "".join(parts)
    assert not any(name in piece for piece in pieces if isinstance(piece, str) for name in names)


def test_the_longest_of_the_tokens_that_begin_at_one_place_is_taken() -> None:
    assert list(TokenMatcher({"\n": 2, "\n\n": 3}).split("\n\n\n")) == [3, 2]


def test_loading_the_tokenizer_of_smollm2_is_quick() -> None:
    # About 110 ms on one core of a Xeon; the bound leaves room for a busy machine.
    metadata = read_gguf(smollm2_path()).metadata
    times = []
    for _ in range(3):
        start = time.perf_counter()
        Tokenizer.from_gguf(metadata)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.5


def saved_tokenizer(folder: Path, scheme: str) -> Path:
    """A ``tokenizer.json`` of characters, with a word-begin mark and a token that takes the white space after it."""
    letters = {text: id_ for id_, text in enumerate("▁abcdefg\n ")}
    package = tokenizers.Tokenizer(tokenizers.models.BPE(letters, []))
    package.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme=scheme)
    turn = tokenizers.AddedToken("<turn>", special=True, rstrip=True, normalized=False)
    package.add_special_tokens([turn, tokenizers.AddedToken("<mask>", special=True, lstrip=True, normalized=False)])
    package.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
@pytest.mark.parametrize("text", ["a b<turn>\n c", "<turn> a", "a <mask> b", "ab", "<turn><turn>  \n", " a<mask>b"])
def test_spaces_beside_tokens_of_a_file_are_read_as_the_tokenizers_package_reads_them(
    tmp_path: Path, scheme: str, text: str
) -> None:
    file = saved_tokenizer(tmp_path, scheme)
    expected = tokenizers.Tokenizer.from_file(str(file)).encode(text, add_special_tokens=False).ids
    assert Tokenizer.from_file(file).encode(text, parse_special=True) == expected


def test_white_space_beside_a_token_that_strips_it_is_dropped() -> None:
    matcher = TokenMatcher({"<a>": 0, "<b>": 1}, Stripping(before=frozenset({0}), after=frozenset({1})))
    assert list(matcher.split("x <a> y <b> \n z<b> <a> ")) == ["x", 0, " y ", 1, "z", 1, 0, " "]


def test_gguf_files_of_phi_3_strip_as_its_tokenizer_json_says() -> None:
    phi = llama_cpp("phi-3")
    turn = phi.control_tokens["<|user|>"]
    assert phi.encode("<|user|>\nhi", parse_special=True)[1:] == [turn, *phi.encode("hi", add_special=False)]


def test_a_damaged_table_of_characters_is_a_format_error() -> None:
    metadata = dict(read_gguf(llama_cpp_models() / "ggml-vocab-nomic-bert-moe.gguf").metadata)
    table = metadata["tokenizer.ggml.precompiled_charsmap"]
    assert isinstance(table, np.ndarray)
    for damaged in (table[:3], table[:1000], table[:-1]):
        with pytest.raises(FileFormatError, match="precompiled_charsmap"):
            Tokenizer.from_gguf({**metadata, "tokenizer.ggml.precompiled_charsmap": damaged})


def test_compatibility_characters_are_replaced_and_spaces_merged() -> None:
    nomic = llama_cpp("nomic-bert-moe")
    assert nomic.encode("x² ﬁne  ½ ") == nomic.encode("x2 fine 1⁄2")
    assert nomic.decode(nomic.encode("ｆｕｌｌ  width")) == "full width"


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def sentence_piece_model(kind: int, tokens: list[tuple[str, float, int]], *, merge_spaces: bool = False) -> bytes:
    """A ``tokenizer.model`` with these tokens; the first three are unknown, BOS and EOS."""
    rows = (
        field(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score) + field(3, type_)
        for text, score, type_ in tokens
    )
    ids = field(40, 0) + field(41, 1) + field(42, 2)
    return b"".join(
        [
            *(field(1, row) for row in rows),
            field(2, field(3, kind) + ids),
            field(3, field(3, 1) + field(4, merge_spaces)),
        ]
    )


@cache
def llama_spm_model() -> bytes:
    metadata = read_gguf(llama_cpp_models() / "ggml-vocab-llama-spm.gguf").metadata
    columns = [metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type")]
    texts, scores, kinds = (
        column.to_list() if isinstance(column, StringArray) else column.tolist() for column in columns
    )  # type: ignore[union-attr]
    kinds[:3] = [2, 3, 3]
    return sentence_piece_model(2, list(zip(texts, scores, kinds, strict=True)))


def test_a_sentence_piece_model_gives_the_ids_of_llama_cpp(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(llama_spm_model())
    tokenizer = Tokenizer.from_file(tmp_path)
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (1, {2})
    for text in texts(300, 7, []):
        assert tokenizer.encode(text) == llama_cpp("llama-spm").encode(text), repr(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_folder_may_add_tokens_to_a_sentence_piece_model(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(llama_spm_model())
    size = llama_cpp("llama-spm").vocab_size
    added = {
        size: {"content": "<|end|>", "special": True, "rstrip": True},
        size + 1: {"content": "<fn>", "special": False},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added, "add_bos_token": False}))
    tokenizer = Tokenizer.from_file(tmp_path)
    assert tokenizer.encode("<fn>a<|end|> \n", parse_special=True)[1:] == [
        size + 1,
        *tokenizer.backend.encode("a", begins=False),
        size,
    ]
    assert size in tokenizer.eos_ids
    assert not tokenizer.is_control(size + 1)
    assert size not in tokenizer.encode("<|end|>")


def test_a_unigram_model_takes_the_best_sum_of_scores_and_spells_the_rest(tmp_path: Path) -> None:
    tokens = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), *((f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)),
              ("▁", -1.0, 1), ("a", -3.0, 1), ("b", -3.0, 1), ("ab", -4.0, 1), ("▁a", -3.5, 1), ("ba", -9.0, 1)]  # fmt: skip
    file = tmp_path / "tokenizer.model"
    file.write_bytes(sentence_piece_model(1, tokens, merge_spaces=True))
    tokenizer = Tokenizer.from_file(file)
    names = [tokens[id_][0] for id_ in tokenizer.encode("  aba  b<0x41>ü ")]
    spelled = [f"<0x{byte:02X}>" for byte in "<0x41>ü".encode()]
    assert names == ["▁", "ab", "a", "▁", "b", *spelled, "</s>"]
    assert tokenizer.decode(tokenizer.encode("ab ü")) == "ab ü"


@pytest.mark.parametrize("damage", ["cut", "text", "nothing", "ids"])
def test_a_damaged_sentence_piece_model_is_a_format_error(tmp_path: Path, damage: str) -> None:
    whole = llama_spm_model()
    damaged = {
        "cut": whole[:-3],
        "text": b"once upon a time",
        "nothing": b"",
        "ids": whole + field(2, field(40, 1 << 20)),
    }
    (tmp_path / "tokenizer.model").write_bytes(damaged[damage])
    with pytest.raises(FileFormatError, match=r"tokenizer\.model"):
        Tokenizer.from_file(tmp_path)


def test_a_sentence_piece_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(
        sentence_piece_model(3, [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)])
    )
    with pytest.raises(UnsupportedError, match="kind 3"):
        Tokenizer.from_file(tmp_path)
