"""Buffers alive together never share bytes; those that are not share what they provably may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snell.errors import CompileError
from snell.runtime.arena import ALIGNMENT, Allocation, MemoryPlan, plan
from snell.symbolic import Dim, Expr, as_expr
from snell.targets import ALIASING, STAGGER

SEQ, BATCH = Dim("seq", 1, 4096), Dim("batch", 1, 64)


def allocation(name: str, size: int | Expr, first: int, last: int) -> Allocation:
    return Allocation(name, as_expr(size), first, last)


def assert_sound(allocations: list[Allocation], result: MemoryPlan, values: dict[Dim, int]) -> None:
    spans = {a.name: (int(result.offsets[a.name].evaluate(values)), int(a.size.evaluate(values))) for a in allocations}
    for a in allocations:
        offset, size = spans[a.name]
        assert offset % ALIGNMENT == 0
        assert offset >= 0
        assert offset + size <= result.total.evaluate(values)
        for b in allocations:
            if a.name < b.name and a.overlaps(b):
                other, length = spans[b.name]
                assert offset + size <= other or other + length <= offset or 0 in (size, length), (a, b)


def test_nothing_needs_nothing() -> None:
    assert plan([]).total == 0


def test_a_chain_needs_two_buffers() -> None:
    result = plan([allocation(str(i), 1000, i, i + 1) for i in range(10)])
    assert result.total == 2048


def test_small_buffers_share_a_large_one_that_is_dead() -> None:
    result = plan([allocation("big", 4096, 0, 1), allocation("a", 1024, 2, 3), allocation("b", 1024, 2, 3)])
    assert result.total == 4096 + STAGGER


def test_large_buffers_that_are_alive_together_begin_at_different_places_of_a_page() -> None:
    result = plan([allocation(str(k), 3 * ALIASING, 0, 1) for k in range(8)])
    places = {int(offset.constant) % ALIASING // ALIGNMENT for offset in result.offsets.values()}
    assert len(places) == 8


def test_equal_symbolic_sizes_share() -> None:
    size = SEQ * 256
    result = plan([allocation("a", size, 0, 1), allocation("b", size, 2, 3)])
    assert result.total == size + STAGGER
    assert result.offsets["a"] == result.offsets["b"]


def test_a_provably_smaller_symbolic_buffer_shares() -> None:
    result = plan([allocation("a", SEQ * 512, 0, 1), allocation("b", SEQ * 256, 2, 3)])
    assert result.total == SEQ * 512 + STAGGER


def test_sizes_that_cannot_be_compared_do_not_share() -> None:
    result = plan([allocation("a", SEQ * 64, 0, 1), allocation("b", BATCH * 64, 2, 3)])
    assert result.total == SEQ * 64 + BATCH * 64 + 2 * STAGGER


def test_symbolic_sizes_are_padded_to_the_alignment() -> None:
    result = plan([allocation("a", SEQ * 4, 0, 1), allocation("b", SEQ * 4, 0, 1)])
    assert result.total.evaluate({SEQ: 17}) == 2 * (128 + STAGGER)


def test_two_buffers_of_one_name_are_an_error() -> None:
    with pytest.raises(CompileError, match="distinct"):
        plan([allocation("a", 1, 0, 0), allocation("a", 1, 1, 1)])


sizes = st.one_of(
    st.integers(0, 5000),
    st.builds(lambda k: SEQ * k, st.integers(1, 300)),
    st.builds(lambda k, c: BATCH * SEQ * k + c, st.integers(1, 8), st.integers(0, 100)),
)


rows_of_buffers = st.lists(st.tuples(sizes, st.integers(0, 12), st.integers(0, 6)), max_size=14)


@given(rows_of_buffers, st.integers(1, 4096), st.integers(1, 64))
def test_no_two_living_buffers_overlap(rows: list[tuple[int | Expr, int, int]], seq: int, batch: int) -> None:
    allocations = [allocation(f"b{i}", size, first, first + length) for i, (size, first, length) in enumerate(rows)]
    assert_sound(allocations, plan(allocations), {SEQ: seq, BATCH: batch})
