"""Texts that tokenizers get wrong: scripts, emoji, code, long white space, digits, names of special tokens, rare bytes."""

import random
import unicodedata
from collections.abc import Iterator, Sequence

_WORDS = [
    "the", "of", "and", "Hello", "WORLD", "I'm", "you'LL", "don't", "café", "naïve", "straße", "3.14", "1,000", "foo_bar",
    "camelCase", "HTTPServer", "don’t", "ﬁ", "½", "x²", "Ελλάδα", "Привет", "мир", "שלום", "مرحبا", "नमस्ते", "ไทย",
]  # fmt: skip
_CODE = ["def f(x):\n    return x\n", "\tif (a<b) { c++; }\n", "#include <x>\n", '<div class="a">', "\r\n", "λ=>",
         "SELECT * FROM t;", "0xFF", "a[i]->b", '"\\n"', "//---\n", "===", "!!!", "..."]  # fmt: skip
_SPACES = [" ", "  ", "   ", " " * 17, "\n", "\n\n", "\n \n", "\t", "\t\t", " \n", "\u00a0", "\r", "\u2003", "\u200b"]
_EMOJI = [*map(chr, range(0x1F300, 0x1F6FF)), "👨‍👩‍👧", "🏳️‍🌈", "🇩🇪", "👍🏽", "❤️"]
_CJK = [*map(chr, range(0x4E00, 0x9FA5, 37)), *map(chr, range(0x3041, 0x30FF))]
_RANGES = [
    (32, 127), (0xA1, 0x800), (0x800, 0x2000), (0x2010, 0x3000), (0xA000, 0xABFF), (0x10000, 0x12000), (0x1D400, 0x1D7FF),
]  # fmt: skip
_OLD = unicodedata.ucd_3_2_0


def texts(count: int, seed: int, names: Sequence[str]) -> Iterator[str]:
    """``names`` are mixed in; characters are those of Unicode 3.2 whose category is still the same: all judges agree on it."""
    source = random.Random(seed)
    for _ in range(count):
        parts: list[str] = []
        for _ in range(source.randrange(1, 14)):
            parts.append(_part(source, names))
            if source.random() < 0.4:
                parts.append(" ")
        yield "".join(parts)


def _part(source: random.Random, names: Sequence[str]) -> str:
    match source.randrange(12):
        case 0 | 1 | 2:
            return source.choice(_WORDS)
        case 3 | 4:
            return source.choice(_SPACES)
        case 5:
            return "".join(source.choices(_CJK, k=source.randrange(1, 5)))
        case 6:
            return source.choice(_EMOJI)
        case 7:
            return source.choice(_CODE)
        case 8 if names:
            return source.choice(names)
        case 9:
            return str(source.randrange(10 ** source.randrange(1, 9)))
        case 10:
            return source.choice(" \n") * source.randrange(1, 30)
        case _:
            return _character(source)


def _character(source: random.Random) -> str:
    while True:
        character = chr(source.randrange(*source.choice(_RANGES)))
        category = unicodedata.category(character)
        if category[0] not in "CZ" and category == _OLD.category(character):
            return character
