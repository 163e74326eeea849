"""A table of texts that is read from a cache finds what a dictionary finds."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models import gemma_path, smollm2_path

from snell.importers.gguf import read_gguf
from snell.llm.tokenizer import KeptIndex, Tokenizer
from snell.llm.tokenizer.string_table import StringTable, table_bytes

TEXTS = ["The capital of France is", "x = {'a': [1, 2]}\n\t  # 日本語 🙂", "<|im_start|>user\n", " " * 20, ""]


class Memory:
    """A cache that counts what is put into it."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.puts = 0

    def get(self, key: str) -> bytes | None:
        return self.entries.get(key)

    def put(self, key: str, payload: bytes) -> None:
        self.puts += 1
        self.entries[key] = payload


@given(st.lists(st.text(max_size=6), max_size=60), st.lists(st.text(max_size=6), max_size=60))
def test_a_table_is_the_dictionary_of_its_texts(texts: list[str], others: list[str]) -> None:
    table, judge = StringTable(texts, table_bytes(texts)), {text: place for place, text in enumerate(texts)}
    for text in (*texts, *others):
        assert table.get(text) == judge.get(text)
        assert (text in table) == (text in judge)
    assert len(table) == len(judge)
    assert dict(table.items()) == judge
    assert [table.get(text) for text in others] == [judge.get(text) for text in others]


def test_many_look_ups_make_the_dictionary_and_find_the_same() -> None:
    texts = [f"token {k}" for k in range(3000)]
    table = StringTable(texts, table_bytes(texts))
    assert all(table[text] == place for _ in range(4) for place, text in enumerate(texts))
    with pytest.raises(KeyError):
        table["no token"]


@pytest.mark.parametrize("path", [smollm2_path, gemma_path])
def test_a_tokenizer_from_kept_tables_gives_the_same_ids(path) -> None:
    metadata = read_gguf(path()).metadata
    memory = Memory()
    judge = Tokenizer.from_gguf(metadata)
    ids = [judge.encode(text) for text in TEXTS]
    for puts in (True, False):
        before = memory.puts
        kept = Tokenizer.from_gguf(metadata, KeptIndex(memory, "file"))
        assert [kept.encode(text) for text in TEXTS] == ids
        assert [kept.decode(tokens) for tokens in ids] == [judge.decode(tokens) for tokens in ids]
        assert (memory.puts > before) == puts


def test_a_damaged_table_is_made_again() -> None:
    texts: Sequence[str] = ["a", "b", "c"]
    memory = Memory()
    assert KeptIndex(memory, "file").table("tokens", texts)["b"] == 1
    (key,) = memory.entries
    memory.entries[key] += b"x"
    assert KeptIndex(memory, "file").table("tokens", texts)["c"] == 2
    assert memory.puts == 2
