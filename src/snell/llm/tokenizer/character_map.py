"""SentencePiece's precompiled table of replacements: at each place of a text the longest entry is replaced.

    table ::= bytes of the trie (u32), trie (u32 units of a double array), replacements (each ended by a zero byte)

A unit holds a label (bits 0 to 7), whether it has a value (8) and the offset of its children (10 to 30, times 256 where
bit 9 is set); a value is a place among the replacements. Source: https://github.com/s-yata/darts-clone and
``normalizer.cc`` of https://github.com/google/sentencepiece.
"""

import numpy as np

from snell.errors import FileFormatError

__all__ = ["CharacterMap"]


class CharacterMap:
    """``normalized(text)``; a damaged table is a FileFormatError."""

    def __init__(self, table: bytes) -> None:
        size = int.from_bytes(table[:4], "little")
        if len(table) < 4 or size % 4 or not 4 <= size <= len(table) - 4 or table[-1] != 0:
            raise _damaged()
        self._units: list[int] = np.frombuffer(table, "<u4", size // 4, 4).tolist()
        self._replacements = table[4 + size :]

    def normalized(self, text: str) -> str:
        """The text with every entry of the table replaced, from left to right."""
        content, parts, at = text.encode(), bytearray(), 0
        while at < len(content):
            length, replacement = self._longest(content, at)
            if length == 0:
                length = _characters_bytes(content[at])
                replacement = content[at : at + length]
            parts += replacement
            at += length
        return parts.decode("utf-8", errors="replace")

    def _longest(self, content: bytes, at: int) -> tuple[int, bytes]:
        """Length of the longest entry that begins at a place (0: none), and its replacement."""
        node, found = _offset(self._unit(0)), (0, b"")
        for end in range(at, len(content)):
            byte = content[end]
            node ^= byte
            unit = self._unit(node)
            if byte == 0 or unit & 0x800000FF != byte:
                break
            node ^= _offset(unit)
            if unit >> 8 & 1:
                begin = self._unit(node) & 0x7FFFFFFF
                found = end + 1 - at, self._replacement(begin)
        return found

    def _unit(self, place: int) -> int:
        if place >= len(self._units):
            raise _damaged()
        return self._units[place]

    def _replacement(self, begin: int) -> bytes:
        if begin >= len(self._replacements):
            raise _damaged()
        return self._replacements[begin : self._replacements.index(0, begin)]


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 1 << 9) >> 6)


def _characters_bytes(first: int) -> int:
    """Bytes of the UTF-8 character that begins with ``first``."""
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def _damaged() -> FileFormatError:
    return FileFormatError(
        "key 'tokenizer.ggml.precompiled_charsmap' is damaged: expected the table of a SentencePiece normaliser; "
        "convert the model again"
    )
