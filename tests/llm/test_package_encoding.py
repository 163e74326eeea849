"""A long text is encoded without keeping Python's lock, and to the same ids."""

from collections.abc import Sequence

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from snell.llm.tokenizer.package_encoding import package_ids

WORDS = "the cat, and an other "


def package() -> tokenizers.Tokenizer:
    letters = {letter: id_ for id_, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = tokenizers.Tokenizer(models.BPE({**letters, "th": 256, "an": 257}, [("t", "h"), ("a", "n")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


class Recorded:
    """A package's tokenizer that keeps which way texts are encoded."""

    def __init__(self) -> None:
        self.ways: list[str] = []
        self._package = package()

    def encode(self, text: str, *, add_special_tokens: bool) -> tokenizers.Encoding:
        self.ways.append("keeps the lock")
        return self._package.encode(text, add_special_tokens=add_special_tokens)

    def encode_batch(self, texts: Sequence[str], *, add_special_tokens: bool) -> list[tokenizers.Encoding]:
        self.ways.append("gives it up")
        return self._package.encode_batch(list(texts), add_special_tokens=add_special_tokens)


@pytest.mark.parametrize(("text", "way"), [(WORDS, "keeps the lock"), (WORDS * 1000, "gives it up")])
def test_only_a_short_text_keeps_the_lock(text: str, way: str) -> None:
    recorded = Recorded()
    ids = package_ids(recorded, text)  # pyright: ignore[reportArgumentType]  # of the package's class it has two methods
    assert ids == package().encode(text, add_special_tokens=False).ids
    assert recorded.ways == [way]
