"""What a nest asks for ahead of time: the panel that follows, whole, before any of it is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.compiler.programs import lowered, spec

import snell as sn
from snell.loops.ir import Blocked, Kernel, Loop, LoopKind, Prefetch, Statement, Update, statements
from snell.rewrite.term import Load, Term, walk
from snell.symbolic import Axis, Expr, as_expr

LINE = 64


class Walk:
    """The cache lines of a product's packed operand in the order in which its first ticket asks for them and reads them."""

    def __init__(self, rows: int | sn.Dim, length: int, columns: int, count: int) -> None:
        made = lowered(sn.matmul, spec(rows, length), spec(length, columns, frozen=True))
        kernel: Kernel = made.kernels[-1].kernel
        buffer = next(b for b in kernel.buffers if isinstance(b.layout, Blocked))
        assert isinstance(buffer.layout, Blocked)
        self.weight, self.length, self.panel = buffer.tensor, length, buffer.layout.blocks[0].size
        (phase,) = kernel.phases
        loops = [s for s in statements(phase.body) if isinstance(s, Loop)]
        ends = {
            s.level.axis: int(as_expr(s.level.axis.extent).evaluate(dict.fromkeys(kernel.dims, count))) for s in loops
        }
        for level in phase.levels:
            ends[level.axis] = min(ends[level.axis], level.step)
        self.visits = [*self._statements(phase.body, dict.fromkeys(ends, 0), ends)]

    def _line(self, indices: tuple[Expr, ...], at: dict[Axis, int]) -> int:
        row, column = (int(index.evaluate(at)) for index in indices)
        return ((column // self.panel * self.length + row) * self.panel + column % self.panel) * 4 // LINE

    def _statements(
        self, body: tuple[Statement, ...], at: dict[Axis, int], ends: dict[Axis, int]
    ) -> Iterator[tuple[bool, int]]:
        for statement in body:
            match statement:
                case Prefetch(tensor, indices) if tensor == self.weight:
                    yield True, self._line(indices, at)
                case Loop(level, inner) if level.kind is LoopKind.VECTOR:
                    for position in range(at[level.axis], ends[level.axis], level.step):
                        yield from self._statements(inner, at | {level.axis: position}, ends)
                case Loop(level, inner):
                    for position in range(at[level.axis], ends[level.axis], level.step):
                        end = min(ends[level.axis], position + level.step)
                        yield from self._statements(inner, at | {level.axis: position}, ends | {level.axis: end})
                case Update(_, value):
                    yield from self._reads(value.args, at)
                case _:
                    pass

    def _reads(self, terms: tuple[Term, ...], at: dict[Axis, int]) -> Iterator[tuple[bool, int]]:
        for item in walk(*terms):
            if isinstance(item.op, Load) and item.op.tensor == self.weight:
                yield False, self._line(item.op.indices, at)

    def surprises(self) -> tuple[int, int]:
        """How many lines were read that nobody had asked for, and how many were read."""
        asked: set[int] = set()
        read: set[int] = set()
        surprising: set[int] = set()
        for is_asked, line in self.visits:
            if is_asked:
                asked.add(line)
            else:
                read.add(line)
                surprising |= {line} - asked
        return len(surprising), len(read)


@pytest.mark.parametrize(
    ("count", "length", "columns"), [(32, 384, 384), (32, 768, 768), (128, 384, 384), (20, 512, 256), (256, 96, 960)]
)
def test_only_the_first_panel_of_a_ticket_comes_unasked(count: int, length: int, columns: int) -> None:
    walked = Walk(count, length, columns, count)
    surprising, read = walked.surprises()
    passes = max(1, length // 256)
    first = length // passes * walked.panel * 4 // LINE
    assert surprising <= first + 1
    assert read > first + 1 or passes == 1


def test_few_rows_of_a_dim_that_is_typically_few_ask_for_all_of_a_panel_too() -> None:
    rows = sn.Dim("rows", max=4096, typical=(16, 1024))
    walked = Walk(rows, 768, 768, 16)
    surprising, read = walked.surprises()
    assert surprising <= 256 * walked.panel * 4 // LINE + 1 < read


def test_within_a_panel_that_no_cache_keeps_what_comes_a_little_later_is_asked_for() -> None:
    walked = Walk(8, 16384, 96, 8)
    surprising, read = walked.surprises()
    assert surprising < read // 8
