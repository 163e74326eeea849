"""The memory plan: where each intermediate buffer lies in an executable's arena.

Takes buffers with a size in bytes (an expression over dims) and a lifetime in steps, gives offsets that are expressions
too; `main` evaluates them for the sizes of a call.  Two buffers share bytes only when their lifetimes are disjoint.
Every offset is a multiple of 64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snell.errors import CompileError
from snell.symbolic import Dim, Expr, as_expr
from snell.targets import ALIASING, STAGGER

__all__ = ["ALIGNMENT", "Allocation", "MemoryPlan", "padded", "plan"]

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Allocation:
    """A buffer of `size` bytes, first written in step `first` and last read in step `last` (inclusive)."""

    name: str
    size: Expr
    first: int
    last: int

    def overlaps(self, other: Allocation) -> bool:
        """True when both are alive in some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets in bytes by name, and the bytes of the whole arena."""

    offsets: Mapping[str, Expr]
    total: Expr


def plan(allocations: Sequence[Allocation]) -> MemoryPlan:
    """Place buffers of known size by the greedy rule, then those of symbolic size in shared blocks behind them."""
    names = [allocation.name for allocation in allocations]
    if len(set(names)) < len(names):
        raise CompileError(f"expected allocations with distinct names, received {names}")
    fixed = [allocation for allocation in allocations if allocation.size.is_constant]
    symbolic = [allocation for allocation in allocations if not allocation.size.is_constant]
    offsets, end = _place_fixed(fixed)
    total = as_expr(end)
    for block in _blocks(symbolic):
        offsets |= {member.name: total for member in block}
        total = total + _spaced(block[0].size)
    return MemoryPlan(offsets, total)


def padded(size: Expr) -> Expr:
    """The size rounded up to the alignment."""
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def _spaced(size: Expr) -> Expr:
    """The bytes a buffer takes: padded, and a large one moves what lies behind it from its own place in a page."""
    return padded(size) if size.is_constant and size.constant < ALIASING else padded(size) + STAGGER


def _place_fixed(allocations: list[Allocation]) -> tuple[dict[str, Expr], int]:
    """Largest first, each at the lowest offset that is free in its lifetime (Pisarchyk & Lee, arXiv:2001.03288)."""
    placed: list[tuple[Allocation, int, int]] = []
    for allocation in sorted(allocations, key=lambda a: (-a.size.constant, a.first, a.name)):
        size = _spaced(allocation.size).constant
        neighbours = sorted((begin, end) for other, begin, end in placed if other.overlaps(allocation))
        offset = 0
        for begin, end in neighbours:
            if offset + size <= begin:
                break
            offset = max(offset, end)
        placed.append((allocation, offset, offset + size))
    offsets = {allocation.name: as_expr(offset) for allocation, offset, _ in placed}
    return offsets, max((end for _, _, end in placed), default=0)


def _blocks(allocations: list[Allocation]) -> list[list[Allocation]]:
    """Lists of buffers that share an offset; the first of each list is provably the largest."""
    blocks: list[list[Allocation]] = []
    for allocation in sorted(allocations, key=lambda a: (-_greatest(a.size), a.first, a.name)):
        for block in blocks:
            fits = (block[0].size - allocation.size).is_non_negative()
            if fits and not any(member.overlaps(allocation) for member in block):
                block.append(allocation)
                break
        else:
            blocks.append([allocation])
    return blocks


def _greatest(size: Expr) -> int:
    """The size with every dim at its maximum: an order in which larger buffers tend to come first."""
    values: dict[Dim, int] = {dim: dim.max for dim in size.dims()}
    return int(size.evaluate(values))
