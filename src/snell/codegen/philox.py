"""Philox4x32-10 words as vector arithmetic: the same bits as `graph.philox`, computed for each element by itself.

Words are held in u64 lanes, where products of 32-bit numbers are exact; `position` is the element's row-major index.
"""

from __future__ import annotations

from snell.codegen.assembler import Value
from snell.codegen.conversion import cast
from snell.codegen.instructions import Instructions
from snell.dtypes import u32, u64
from snell.graph.philox import MULTIPLIERS, ROUNDS, WEYL

__all__ = ["philox_word"]

_Block = tuple[Value, Value, Value, Value]


def philox_word(code: Instructions, key: tuple[Value, Value], position: Value) -> Value:
    """The u32 word at a position (i64) of the stream of a key (two u32); all have equal lanes."""
    lanes = position.lanes
    index = Value(position.text, u64, lanes)

    def number(value: int) -> Value:
        return code.constant(value, u64, lanes)

    block = code.binary("lshr", index, number(2))
    zero, low = number(0), number(0xFFFFFFFF)
    words: _Block = (code.binary("and", block, low), code.binary("lshr", block, number(32)), zero, zero)
    keys = [cast(code, part, u64) for part in key]
    for step in range(ROUNDS):
        weyl = [number(step * constant & 0xFFFFFFFF) for constant in WEYL]
        turned = [code.binary("and", code.binary("add", k, w), low) for k, w in zip(keys, weyl, strict=True)]
        words = _round(code, words, (turned[0], turned[1]), (number(int(MULTIPLIERS[0])), number(int(MULTIPLIERS[1]))))
    place = code.binary("and", index, number(3))
    chosen = words[0]
    for k in range(1, 4):
        chosen = code.select(code.compare("icmp", "eq", place, number(k)), words[k], chosen)
    return cast(code, chosen, u32)


def _round(code: Instructions, words: _Block, key: tuple[Value, Value], multipliers: tuple[Value, Value]) -> _Block:
    a, b, c, d = words
    first, second = code.binary("mul", a, multipliers[0]), code.binary("mul", c, multipliers[1])
    half, low = (code.constant(value, first.dtype, first.lanes) for value in (32, 0xFFFFFFFF))

    def mixed(product: Value, word: Value, part: Value) -> Value:
        return code.binary("xor", code.binary("xor", code.binary("lshr", product, half), word), part)

    return (
        mixed(second, b, key[0]), code.binary("and", second, low),
        mixed(first, d, key[1]), code.binary("and", first, low),
    )  # fmt: skip
