"""The covering design: cases such that every two values of two factors meet in one case, where they may meet at all.

Factors are the operation's row, dtype, shape class, layout and whether sizes are symbolic.  The design is greedy
(as in AETG, Cohen et al., 1997) and deterministic: row by row, the case that covers most of the row's missing pairs is
taken, and of equals the one that covers most pairs of the other factors, which so are covered many times over.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.grid.operation import Operation
from tests.grid.operations import OPERATIONS
from tests.grid.shapes import Layout, ShapeClass, extents

from snell.dtypes import DType

__all__ = ["Case", "full_product", "pair_values", "pairwise"]

Pair = tuple[tuple[int, object], tuple[int, object]]


@dataclass(frozen=True, slots=True)
class Case:
    """One point of the grid."""

    row: int
    dtype: DType
    shape: ShapeClass
    layout: Layout
    symbolic: bool

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.row]

    @property
    def label(self) -> str:
        sizes = "symbolic" if self.symbolic else "static"
        operation = f"{self.operation.name}#{self.row}"
        return f"{operation}-{self.dtype}-{self.shape.name}-{self.layout.name}-{sizes}".lower()

    @property
    def seed(self) -> int:
        return zlib.crc32(self.label.partition("#")[0].encode()) + self.row

    def pairs(self) -> tuple[Pair, ...]:
        factors = (self.row, self.dtype.name, self.shape.name, self.layout.name, self.symbolic)
        numbered = tuple(enumerate(factors))
        return tuple(itertools.combinations(numbered, 2))


def full_product() -> Iterator[Case]:
    """Every case that exists, rows in table order."""
    for row in range(len(OPERATIONS)):
        yield from cases_of(row)


@functools.cache
def cases_of(row: int) -> tuple[Case, ...]:
    """The cases of one row: scalars have one layout, and only operations with free axes have symbolic sizes."""
    operation = OPERATIONS[row]
    found: list[Case] = []
    for dtype, shape in itertools.product(operation.dtypes, ShapeClass):
        sizes = extents(shape, operation.rank)
        if sizes is None or not operation.accepts(sizes):
            continue
        layouts = list(Layout) if sizes else [Layout.CONTIGUOUS]
        symbolic = [False, True] if operation.symbolic_axes(len(sizes)) else [False]
        found.extend(Case(row, dtype, shape, layout, s) for layout, s in itertools.product(layouts, symbolic))
    return tuple(found)


def pairwise() -> tuple[Case, ...]:
    """The covering design, row by row: a row's own pairs must be covered, pairs of the other factors break ties."""
    bits: dict[Pair, int] = {}
    covered, chosen = 0, list[Case]()
    for row in range(len(OPERATIONS)):
        cases = sorted(cases_of(row), key=lambda case: zlib.crc32(case.label.encode()))
        masks = [_mask(case.pairs(), bits) for case in cases]
        own = _mask([pair for pair in bits if pair[0] == (0, row)], bits)
        while own & ~covered:
            missing = own & ~covered
            gains = [((mask & missing).bit_count(), (mask & ~covered).bit_count()) for mask in masks]
            best = gains.index(max(gains))
            chosen.append(cases[best])
            covered |= masks[best]
    return tuple(chosen)


def _mask(pairs: Iterable[Pair], bits: dict[Pair, int]) -> int:
    """The pairs as a set of bits, numbered as they are first seen."""
    mask = 0
    for pair in pairs:
        mask |= 1 << bits.setdefault(pair, len(bits))
    return mask


def pair_values(cases: Case | int) -> frozenset[Pair]:
    """The pairs with the row that a case, or every case of a row together, has."""
    chosen = [cases] if isinstance(cases, Case) else cases_of(cases)
    return frozenset(pair for case in chosen for pair in case.pairs() if pair[0] == (0, case.row))
