"""Terms that only move and mask the bits of bytes are read as fields, and mean what the terms mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snell.codegen.byte_fields import byte_fields
from snell.dtypes import u8, u16
from snell.graph.primitives import Add, Mod, Mul
from snell.rewrite.term import FloorDivide, Number, Tensor, Term, load, number, term

BYTE = load(Tensor("b", (), u8), ())
OTHER = load(Tensor("c", (), u8), ())
ALL = np.arange(256)


def apply(op: object, item: Term, value: int) -> Term:
    return term(op, (item, number(value, u8)), u8)  # type: ignore[arg-type]


def meaning(item: Term, byte: np.ndarray) -> np.ndarray:
    """The term's value in u8 arithmetic, every load being the byte."""
    if isinstance(item.op, Number):
        return np.full_like(byte, int(item.op.value))
    if not item.args:
        return byte
    a, b = (meaning(argument, byte) for argument in item.args)
    match item.op:
        case FloorDivide():
            return a // b
        case Mod():
            return a % b
        case Mul():
            return a * b % 256
        case _:
            return (a + b) % 256


@given(st.lists(st.tuples(st.sampled_from((FloorDivide(), Mod(), Mul())), st.integers(0, 7)), min_size=1, max_size=4))
def test_a_field_means_what_its_term_means(steps: list[tuple[object, int]]) -> None:
    item = BYTE
    for op, bits in steps:
        item = apply(op, item, 1 << bits)
    (field,) = byte_fields(item)
    moved = ALL << field.shift if field.shift >= 0 else ALL >> -field.shift
    np.testing.assert_array_equal(moved & field.mask, meaning(item, ALL))
    assert field.source is BYTE


def test_fields_of_several_bytes_make_one_where_their_bits_do_not_meet() -> None:
    low, high = apply(Mod(), BYTE, 16), apply(Mul(), apply(Mod(), apply(FloorDivide(), OTHER, 8), 2), 16)
    fields = byte_fields(term(Add(), (low, high), u8))
    assert [(field.source, field.shift, field.mask) for field in fields] == [(BYTE, 0, 15), (OTHER, 1, 16)]


@pytest.mark.parametrize(
    "item",
    [
        BYTE,
        term(Add(), (BYTE, OTHER), u8),
        term(Add(), (apply(Mod(), BYTE, 16), apply(Mod(), OTHER, 16)), u8),
        apply(Mul(), BYTE, 3),
        apply(Mod(), BYTE, 10),
        term(Mul(), (BYTE, OTHER), u8),
        term(Mod(), (load(Tensor("w", (), u16), ()), number(16, u16)), u16),
    ],
    ids=["a byte", "bytes", "bits that meet", "thrice", "mod ten", "a product", "a wider word"],
)
def test_anything_else_is_no_field(item: Term) -> None:
    assert byte_fields(item) == ()
