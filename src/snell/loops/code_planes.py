"""Planes of packed codes: codes of few bits share bytes, each byte holding those of positions that lie apart.

    six bits:  low plane   byte = c[k] mod 16 + 16·(c[k + n/2] mod 16)
               high plane  byte = Σ_p (c[k + p·n/4] div 16)·4^p
               code        c = low field + 16·high field

A code's bits are cut into planes whose widths are powers of two, so that fields fill bytes; a word of bytes then gives a
word of codes for every field, by a shift and a mask.  Where the grouped axis alone has too few words for the fields of a
byte, positions of the other inner axes take part.  Codes that fit no planes are bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from snell.dtypes import f32, u8
from snell.graph.primitives import Add, Mod, Mul
from snell.loops.codes import whole_interval
from snell.loops.nested import NestedSum
from snell.rewrite.arithmetic import add, multiply
from snell.rewrite.substitution import substitute
from snell.rewrite.term import Cast, FloorDivide, Term, cast, number, term
from snell.symbolic import Axis, Expr, as_expr

__all__ = ["GroupedProducts", "grouped_products"]

_BYTE = 8
_MOST_PLANES = 2  # a third one would save an eighth of seven bits and cost an instruction a word

Packed = Callable[[Term, Axis], Term]
"""The load of a term that is packed with a word's positions of an axis side by side."""


@dataclass(frozen=True, slots=True)
class GroupedProducts:
    """The inner loops that are left, the grouped axis last, and the products of one word at a turn of them."""

    axes: tuple[Axis, ...]
    products: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class _Plane:
    """Bits `low` to `low + width` of a code."""

    low: int
    width: int

    @property
    def parts(self) -> int:
        """Fields in a byte."""
        return _BYTE // self.width


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a block that are written out: `places` of each but for a position of `axis`, in an order in which
    `along` words of the grouped axis follow each other, then those of the last of the axes `across`; the loops over
    `others` stay."""

    axis: Axis
    places: tuple[Mapping[Axis, Expr], ...]
    along: int
    across: tuple[Axis, ...]
    others: tuple[Axis, ...]

    def inside(self, shared: int) -> tuple[Axis, ...] | None:
        """The last of `across` whose positions so many words are, with all along the grouped axis; None for no such."""
        if self.along % shared == 0:
            return ()
        count = self.along
        for place, axis in enumerate(reversed(self.across), 1):
            assert isinstance(axis.extent, int)
            count *= axis.extent
            if count == shared:
                return self.across[-place:]
        return None


def grouped_products(nested: NestedSum, packed: Packed) -> GroupedProducts:
    """The products of a word at a time, of codes packed as narrow as they are."""
    planes = _planes(nested)
    words = _words(nested, max((plane.parts for plane in planes), default=1))
    if words is None:
        others = tuple(axis for axis in nested.inner if axis != nested.grouped)
        product = _product(nested, packed(nested.weight, nested.grouped), nested.other)
        return GroupedProducts((*others, nested.grouped), (product,))
    stored = [_stored(nested, plane, words, packed) for plane in planes]
    products: list[Term] = []
    for place, positions in enumerate(words.places):
        fields = [fields_of(place) for fields_of in stored]
        code = fields[0] if len(fields) == 1 else term(Add(), (fields[0], fields[1]), u8)
        products.append(_product(nested, code, substitute(nested.other, positions)))
    return GroupedProducts((*words.others, words.axis), tuple(products))


def _product(nested: NestedSum, weight: Term, other: Term) -> Term:
    dtype = nested.row.accumulator
    return multiply(cast(weight, dtype), cast(other, dtype))


def _planes(nested: NestedSum) -> tuple[_Plane, ...]:
    """Widest first, from the lowest bit; none where a code takes a byte whatever is done."""
    interval = whole_interval(nested.weight)
    if nested.weight.dtype != u8 or interval is None or interval[0] < 0:
        return ()
    bits = max(1, interval[1].bit_length())
    wider = ((_Plane(0, width),) for width in (1, 2, 4) if width >= bits)
    return next((planes for planes in (_cut(bits), *wider) if planes and _fit(nested, planes)), ())


def _fit(nested: NestedSum, planes: tuple[_Plane, ...]) -> bool:
    """Whether the block has words enough, and those that share a place in their bytes are all of some of its axes."""
    words = _words(nested, planes[-1].parts)
    if words is None:
        return False
    return all(words.inside(len(words.places) // plane.parts) is not None for plane in planes)


def _cut(bits: int) -> tuple[_Plane, ...]:
    """Planes of powers of two; none for a byte, or where there would be too many."""
    planes: list[_Plane] = []
    low = 0
    for width in (4, 2, 1):
        if bits < _BYTE and bits & width:
            planes.append(_Plane(low, width))
            low += width
    return tuple(planes) if len(planes) <= _MOST_PLANES else ()


def _words(nested: NestedSum, count: int) -> _Words | None:
    """So many words of a block written out; None where the block has no such number of them."""
    grouped, group = nested.grouped, nested.row.group
    assert isinstance(grouped.extent, int)
    if count == 1:
        return None
    others = tuple(axis for axis in nested.inner if axis != grouped)
    along = grouped.extent // group
    if along % count == 0:
        length = grouped.extent // count
        axis = Axis(f"{grouped.name}_part", length)
        places = tuple({grouped: as_expr(axis) + part * length} for part in range(count))
        return _Words(axis, places, count, (), others)
    around = math.prod(axis.extent for axis in others if isinstance(axis.extent, int))
    if along * around != count:
        return None
    axis = Axis(f"{grouped.name}_part", group)
    ranges = [range(axis.extent) for axis in others if isinstance(axis.extent, int)]
    outer = itertools.product(*ranges)
    places = tuple(
        {**dict(zip(others, map(as_expr, at), strict=True)), grouped: as_expr(axis) + part * group}
        for at in outer
        for part in range(along)
    )
    return _Words(axis, places, along, others, ())


def _stored(nested: NestedSum, plane: _Plane, words: _Words, packed: Packed) -> Callable[[int], Term]:
    """The plane packed; a function from a word's number to its field, where it belongs in the code."""
    grouped = nested.grouped
    length, shared = words.axis.extent, len(words.places) // plane.parts
    assert isinstance(length, int)
    inside = words.inside(shared)
    assert inside is not None
    axis = Axis(f"{grouped.name}_part{plane.parts}", min(shared, words.along) * length)
    byte: Term | None = None
    for part in range(plane.parts):
        positions = {key: at for key, at in words.places[part * shared].items() if key not in inside}
        positions[grouped] = positions[grouped].substitute({words.axis: as_expr(axis)})  # type: ignore[arg-type]
        bits = multiply(_bits(substitute(nested.weight, positions), plane), number(1 << part * plane.width, f32))
        byte = bits if byte is None else add(byte, bits)
    assert byte is not None
    whole = packed(term(Cast(), (byte,), u8), axis)

    def field(place: int) -> Term:
        at = {key: words.places[place][key] for key in inside}
        at[axis] = as_expr(words.axis) + place % min(shared, words.along) * length
        return _placed(_field(substitute(whole, at), place // shared, plane), plane)

    return field


def _bits(code: Term, plane: _Plane) -> Term:
    """The plane's bits of a code, as the float that a byte is made of."""
    interval = whole_interval(code)
    assert interval is not None
    if not plane.low and interval[1] < 1 << plane.width:
        return code.args[0] if isinstance(code.op, Cast) and code.args[0].dtype == f32 else cast(code, f32)
    return cast(_field(code, 0, plane) if not plane.low else _high(code, plane.low), f32)


def _high(code: Term, low: int) -> Term:
    """The bits of a code from one on; above them it has none."""
    return term(FloorDivide(), (code, number(1 << low, u8)), u8)


def _field(byte: Term, place: int, plane: _Plane) -> Term:
    """One field of a byte."""
    high = _high(byte, place * plane.width) if place else byte
    return high if place == plane.parts - 1 else term(Mod(), (high, number(1 << plane.width, u8)), u8)


def _placed(field: Term, plane: _Plane) -> Term:
    return field if not plane.low else term(Mul(), (field, number(1 << plane.low, u8)), u8)
