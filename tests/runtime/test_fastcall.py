"""A fast call takes exactly what it was made for, holds what it reads, and gives results that are the caller's own."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.runtime.kernels import code
from tests.runtime.test_executable import ZERO, sum_of_three

from snell.dtypes import f32, i64
from snell.engine.array import Array
from snell.runtime.executable import Executable
from snell.runtime.fastcall import fast_call
from snell.runtime.program import BufferSlot, Call, Program, Role
from snell.symbolic import as_expr
from snell.targets import ALIASING

COUNT = 1000
W = np.full(COUNT, 3, np.float32)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    a, b = np.random.default_rng(0).standard_normal((2, COUNT), np.float32)
    return a.copy(), b.copy()


def call_of(executable: Executable, *inputs: np.ndarray, order: tuple[int, ...] | None = None) -> Callable[..., Any]:
    used = inputs if order is None else [inputs[number] for number in order]
    specs = [(array.shape, array.dtype) for array in inputs]
    layout = executable.layout(*used)
    call = fast_call(executable, layout, specs, order or range(len(inputs)), Array)
    assert call is not None, "this Python or NumPy is laid out in a way that generated code does not know"
    return call


@pytest.fixture(name="call")
def fixture_call() -> Callable[..., Any]:
    return call_of(Executable(sum_of_three(), {"w": W}), *arrays())


def test_the_result_is_a_new_array_on_a_boundary_of_64_bytes_that_may_be_written(call: Callable[..., Any]) -> None:
    a, b = arrays()
    first, second = call(a, b), call(a, a)
    assert type(first) is Array
    np.testing.assert_array_equal(first.numpy(), a + b + W)
    np.testing.assert_array_equal(second.numpy(), a + a + W)
    values = first.numpy()
    assert (values.shape, values.dtype, values.ctypes.data % 64) == ((COUNT,), np.float32, 0)
    assert values.flags.writeable
    assert values.flags.c_contiguous


def test_a_box_stands_for_the_array_in_it(call: Callable[..., Any]) -> None:
    a, b = arrays()
    np.testing.assert_array_equal(call(Array(a), b).numpy(), a + b + W)


def test_a_read_only_array_is_read_in_place(call: Callable[..., Any]) -> None:
    a, b = arrays()
    a.flags.writeable = False
    np.testing.assert_array_equal(call(a, b).numpy(), a + b + W)


class Named(np.ndarray):
    """A subclass may mean something else by its elements."""


@pytest.mark.parametrize(
    "other",
    [
        np.zeros(COUNT), np.zeros(COUNT, np.int32), np.zeros(COUNT, ">f4"), np.zeros(COUNT - 1, np.float32),
        np.zeros((COUNT, 1), np.float32), np.float32(1), np.zeros(2 * COUNT, np.float32)[::2],
        np.zeros(4 * COUNT + 1, np.uint8)[1:].view(np.float32), np.zeros(COUNT, np.float32).view(Named), None, 1.0,
        [0.0] * COUNT, Array,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_any_other_argument_is_declined(call: Callable[..., Any], other: Any) -> None:
    a, _ = arrays()
    before = sys.getrefcount(a)
    assert call(a, other) is NotImplemented
    assert call(other, a) is NotImplemented
    assert sys.getrefcount(a) == before


def test_another_number_of_arguments_and_a_box_that_is_empty_are_declined(call: Callable[..., Any]) -> None:
    a, b = arrays()
    empty, unset = Array(a), object.__new__(Array)
    empty.donate()
    for arguments in ((), (a,), (a, b, b), (empty, b), (a, unset)):
        assert call(*arguments) is NotImplemented


def test_nothing_is_held_after_a_call(call: Callable[..., Any]) -> None:
    a, b = arrays()
    objects = (a, b, Array, np.ndarray, a.dtype, np.dtype(np.uint8), NotImplemented)
    call(a, b)
    before = [sys.getrefcount(item) for item in objects]
    for _ in range(1000):
        call(a, b)
        call(a, None)
    after = [sys.getrefcount(item) for item in objects]
    # Counts of objects that the process shares may move by a few for other reasons, a leak moves them by a thousand.
    assert before[:2] == after[:2]
    assert all(abs(x - y) < 100 for x, y in zip(before, after, strict=True))
    values = call(a, b).numpy()
    assert sys.getrefcount(values) == 2


def test_a_result_outlives_the_call_and_the_executable() -> None:
    a, b = arrays()
    result = call_of(Executable(sum_of_three(), {"w": W}), a, b)(a, b)
    np.testing.assert_array_equal(result.numpy(), a + b + W)


def test_where_no_memory_is_left_the_call_raises_and_works_again_after() -> None:
    a, b = arrays()
    executable = Executable(sum_of_three(), {"w": W})
    layout = executable.layout(a, b)
    vast = dataclasses.replace(layout, outputs=((layout.outputs[0][0], np.dtype(np.float32), 1 << 60),))
    specs = [(a.shape, a.dtype), (b.shape, b.dtype)]
    call = fast_call(executable, vast, specs, (0, 1), Array)
    assert call is not None
    before = sys.getrefcount(a)
    for _ in range(2):
        with pytest.raises(MemoryError):
            call(a, b)
    assert sys.getrefcount(a) == before
    np.testing.assert_array_equal(executable(a, b)[0], a + b + W)


def test_arguments_come_in_their_own_order_and_some_are_not_read() -> None:
    a, b = arrays()
    unread = np.zeros((2, 3))
    call = call_of(Executable(sum_of_three(), {"w": W}), b, unread, a, order=(2, 0))
    np.testing.assert_array_equal(call(b, unread, a).numpy(), a + b + W)
    assert call(b, np.zeros((3, 2)), a) is NotImplemented


def test_several_results_come_as_a_tuple_and_a_scalar_has_no_axes() -> None:
    def slot(name: str, role: Role, shape: tuple[int, ...]) -> BufferSlot:
        return BufferSlot(name, role, i64, tuple(map(as_expr, shape)))

    numbers = [slot("x", Role.OUTPUT, ()), slot("y", Role.OUTPUT, (1, 1))]
    calls = tuple(Call("sizes", (k,), (as_expr(k + 5),), as_expr(1), ZERO) for k in range(2))
    executable = Executable(Program(tuple(numbers), (), calls, ZERO, objects=(code("sizes"),)))
    x, y = call_of(executable)()
    assert (x.numpy().shape, x.item()) == ((), 5)
    assert (y.numpy().shape, y.item()) == ((1, 1), 6)


def test_a_pool_with_more_threads_than_the_memory_is_for_is_declined(call: Callable[..., Any]) -> None:
    a, b = arrays()
    executable = Executable(sum_of_three(), {"w": W})
    small = call_of(executable, a, b)
    threads = executable.pool.threads
    try:
        executable.pool.configure(threads + 1)
        assert small(a, b) is NotImplemented
        np.testing.assert_array_equal(executable(a, b)[0], a + b + W)
    finally:
        executable.pool.configure(threads)
    np.testing.assert_array_equal(small(a, b).numpy(), a + b + W)


def test_a_donated_input_and_too_many_arrays_have_no_fast_call() -> None:
    slots = (
        BufferSlot("a", Role.INPUT, f32, (as_expr(4),)),
        BufferSlot("d", Role.OUTPUT, f32, (as_expr(4),), donated=0),
    )
    donating = Executable(Program(slots, (), (), ZERO, objects=(code("add"),)))
    a = np.zeros(4, np.float32)
    spec = (a.shape, a.dtype)
    assert fast_call(donating, donating.layout(a), [spec], (0,), Array) is None
    plain = Executable(sum_of_three(), {"w": W})
    assert fast_call(plain, plain.layout(*arrays()), [spec] * 65, (0, 1), Array) is None


def test_large_results_begin_at_different_places_of_a_page() -> None:
    x = np.ones(1 << 15, np.float32)
    executable = Executable(sum_of_three(), {"w": x})
    call = call_of(executable, x, x)
    results = [call(x, x).numpy() for _ in range(9)]
    assert len({result.ctypes.data % ALIASING for result in results}) == 7
    assert all(result.ctypes.data % 64 == 0 and (result == 3).all() for result in results)
