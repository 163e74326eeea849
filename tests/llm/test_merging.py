"""Merging words in Python gives the ids of the tokenizers package, and never a forbidden token."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import smollm2_path

from snell.errors import FileFormatError
from snell.importers.gguf import read_gguf
from snell.llm.tokenizer import Tokenizer
from snell.llm.tokenizer.byte_pair import BytePairBackend
from snell.llm.tokenizer.merging import Merging

IDS = {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "<x>": 6, "<": 7, "x>": 8}
MERGES = ["b c", "a b", "a bc", "< x>"]


def ranks(merges: list[str]) -> dict[str, int]:
    return {merge: rank for rank, merge in enumerate(merges)}


def merging(**changes: object) -> Merging:
    options: dict[str, object] = {"ids": IDS, "ranks": ranks(MERGES), "forbidden": (), "ignore_merges": False} | changes
    return Merging(**options)  # type: ignore[arg-type]


@cache
def backend() -> BytePairBackend:
    found = Tokenizer.from_gguf(read_gguf(smollm2_path()).metadata).backend
    assert isinstance(found, BytePairBackend)
    return found


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.text("abcdeinorst <|_'19\n", max_size=60))
def test_a_short_text_has_the_ids_that_the_package_gives(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    expected = backend()._package.encode(text, add_special_tokens=False).ids
    assert backend().encode(text) == expected


def test_long_texts_and_long_words_go_to_the_package_and_agree_with_their_parts() -> None:
    sentence = "The path of least time is found. "
    assert backend().encode(sentence * 600) == backend().encode(sentence[:-1]) + backend().encode(
        " " + sentence[:-1]
    ) * 599 + backend().encode(" ")
    assert backend().decode(backend().encode("x" * 500)) == "x" * 500


def test_the_pair_of_least_rank_is_merged_first() -> None:
    assert merging().ids("abc") == (5,)
    assert merging(ranks=ranks(["a b", "b c"])).ids("abc") == (3, 2)


def test_a_character_that_is_no_token_is_left_out() -> None:
    assert merging().ids("a?b") == (3,)


def test_a_forbidden_token_is_neither_merged_nor_taken_whole() -> None:
    assert merging(forbidden=("abc",)).ids("abc") == (0, 4)
    assert merging(forbidden=("abc",), ignore_merges=True).ids("abc") == (0, 4)


def test_with_ignore_merges_a_word_that_is_a_token_is_taken_whole() -> None:
    assert merging(ranks={}, ignore_merges=True).ids("abc") == (5,)
    assert merging(ranks={}).ids("abc") == (0, 1, 2)


def test_a_merge_that_results_in_no_token_is_an_error_that_names_it() -> None:
    with pytest.raises(FileFormatError, match="'ca' is no token"):
        merging(ranks=ranks(["c a"])).ids("ca")
