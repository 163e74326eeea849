"""Running a program: sizes, arenas, copies, checks, several threads, and what a wrong input says."""

import threading
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.kernels import code

from snell.codegen.host import host_target
from snell.dtypes import bool_, f32, i64
from snell.errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from snell.runtime.executable import Executable
from snell.runtime.main import main_ir, scratch_stride, with_main
from snell.runtime.program import BufferSlot, Call, Check, Joint, Program, Role, from_bytes, to_bytes
from snell.symbolic import Dim, Expr, as_expr

N = Dim("n", 1, 1 << 20)
ZERO = as_expr(0)


def vector(name: str, role: Role, **options: Any) -> BufferSlot:
    return BufferSlot(name, role, f32, (as_expr(N),), **options)


def sum_of_three(parallel: bool = True) -> Program:
    """d = (a + b) + w with a + b in the arena and w frozen."""
    slots = (
        vector("a", Role.INPUT), vector("b", Role.INPUT), vector("w", Role.FROZEN),
        vector("t", Role.ARENA, offset=as_expr(64)), vector("d", Role.OUTPUT),
    )  # fmt: skip
    calls = (
        Call("add", (0, 1, 3), (as_expr(N),), as_expr(N), as_expr(40), parallel=parallel),
        Call("add", (3, 2, 4), (as_expr(N),), as_expr(N), as_expr(0), parallel=parallel),
    )
    return Program(slots, (N,), calls, N * 4 + 64, objects=(code("add"),))


def arrays(n: int, count: int = 3) -> list[np.ndarray]:
    generator = np.random.default_rng(n)
    return [generator.standard_normal(n, np.float32) for _ in range(count)]


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("n", [1, 5, 1000, 100_003])
def test_one_executable_serves_every_size(n: int, parallel: bool) -> None:
    a, b, w = arrays(n)
    (d,) = Executable(sum_of_three(parallel), {"w": w})(a, b)
    assert np.array_equal(d, a + b + w)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 30])
@pytest.mark.parametrize("n", [1, 5, 100_003])
def test_calls_of_one_dispatch_run_all_of_their_tickets(n: int, chunk: int) -> None:
    """A chunk may hold tickets of several calls; the calls have different numbers of tickets, and sizes of their own."""
    slots = (*(vector(name, Role.INPUT) for name in "abw"), vector("c", Role.OUTPUT), vector("d", Role.OUTPUT))
    calls = (
        Call("add", (0, 1, 3), (as_expr(N),), as_expr(N), as_expr(40)),
        Call("add", (1, 2, 4), (as_expr(N) + 1,), as_expr(N), as_expr(0)),
    )
    program = Program(slots, (N,), (Joint(calls, chunk),), ZERO, objects=(code("add"),))
    a, b, w = arrays(n)
    c, d = Executable(program)(a, b, w)
    assert np.array_equal(c, a + b)
    assert np.array_equal(d, b + w)


def test_a_saved_program_runs_the_same() -> None:
    a, b, w = arrays(33)
    program = with_main(sum_of_three(), host_target())
    (d,) = Executable(from_bytes(to_bytes(program)), {"w": w})(a, b)
    assert np.array_equal(d, a + b + w)


def test_outputs_are_new_aligned_arrays_or_the_ones_given() -> None:
    a, b, w = arrays(50)
    executable = Executable(sum_of_three(), {"w": w})
    first, second = executable(a, b)[0], executable(a, b)[0]
    assert first.ctypes.data % 64 == 0
    assert not np.shares_memory(first, second)
    mine = np.empty(50, np.float32)
    assert executable(a, b, out=[mine])[0] is mine
    assert np.array_equal(mine, first)


def test_contiguous_inputs_are_used_in_place_and_others_copied_and_counted() -> None:
    a, b, w = arrays(64)
    executable = Executable(sum_of_three(), {"w": w})
    executable(a, b)
    assert executable.copied_inputs == 0
    (d,) = executable(np.repeat(a, 2)[::2], b)
    assert executable.copied_inputs == 1
    assert np.array_equal(d, a + b + w)


def test_frozen_inputs_are_kept_alive_and_read_again() -> None:
    a, b, w = arrays(16)
    frozen = w.copy()
    executable = Executable(sum_of_three(), {"w": frozen})
    frozen += 1
    assert np.array_equal(executable(a, b)[0], a + b + (w + 1))
    del frozen
    assert np.array_equal(executable(a, b)[0], a + b + (w + 1))


def test_a_bound_call_reads_and_writes_the_same_arrays() -> None:
    a, b, w = arrays(16)
    bound = Executable(sum_of_three(), {"w": w}).bind(a, b)
    (d,) = bound()
    assert np.array_equal(d, a + b + w)
    a *= 2
    assert bound()[0] is d
    assert np.array_equal(d, a + b + w)


def test_threads_may_call_at_once() -> None:
    _, _, w = arrays(5000)
    executable = Executable(sum_of_three(), {"w": w})
    bad: list[int] = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(50):
            a, b = generator.standard_normal((2, 5000), np.float32)
            if not np.array_equal(executable(a, b)[0], a + b + w):
                bad.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bad == []


def test_a_donated_input_becomes_the_output() -> None:
    slots = (vector("a", Role.INPUT), vector("b", Role.INPUT), vector("c", Role.OUTPUT, donated=0))
    call = Call("add", (0, 1, 2), (), as_expr(N), ZERO)
    a, b, _ = arrays(20)
    expected = a + b
    (c,) = Executable(Program(slots, (N,), (call,), ZERO, objects=(code("add"),)))(a, b)
    assert c is a
    assert np.array_equal(a, expected)


class TestErrors:
    @pytest.fixture
    def executable(self) -> Executable:
        return Executable(sum_of_three(), {"w": np.zeros(8, np.float32)})

    def test_a_wrong_dtype(self, executable: Executable) -> None:
        with pytest.raises(DTypeError, match="'b': expected f32, received float64"):
            executable(np.zeros(8, np.float32), np.zeros(8))

    def test_sizes_that_disagree_name_the_dim(self, executable: Executable) -> None:
        with pytest.raises(ShapeError, match=r"'b' axis 0: expected n \(= 8\), received 9"):
            executable(np.zeros(8, np.float32), np.zeros(9, np.float32))

    def test_a_size_outside_its_dim(self, executable: Executable) -> None:
        empty = np.zeros(0, np.float32)
        with pytest.raises(ShapeError, match=r"dim 'n' in 1\.\.1048576, received 0"):
            executable(empty, empty)

    def test_a_wrong_rank_or_count(self, executable: Executable) -> None:
        with pytest.raises(ShapeError, match=r"expected shape \(n,\), received \(1, 8\)"):
            executable(np.zeros((1, 8), np.float32), np.zeros(8, np.float32))
        with pytest.raises(ShapeError, match="expected 2 inputs"):
            executable(np.zeros(8, np.float32))
        with pytest.raises(ShapeError, match="expected 2 inputs"):
            executable(*[np.zeros(8, np.float32)] * 3)

    def test_wrong_outputs(self, executable: Executable) -> None:
        x = np.zeros(8, np.float32)
        with pytest.raises(ShapeError, match="output 'd'"):
            executable(x, x, out=[np.zeros(9, np.float32)])
        with pytest.raises(DTypeError, match="output 'd'"):
            executable(x, x, out=[np.zeros(8)])

    def test_a_frozen_input_of_another_size(self, executable: Executable) -> None:
        x = np.zeros(9, np.float32)
        with pytest.raises(ShapeError, match=r"frozen input 'w': expected shape \(n,\), received \(8,\)"):
            executable(x, x)

    def test_missing_frozen_inputs_and_objects(self) -> None:
        with pytest.raises(GraphError, match="w"):
            Executable(sum_of_three())
        program = Program((), (), (Call("nowhere", (), (), as_expr(1), ZERO),), ZERO)
        with pytest.raises(GraphError, match="nowhere"):
            Executable(program)


def test_a_failed_check_raises_with_its_value() -> None:
    slots = (
        BufferSlot("index", Role.INPUT, i64, ()), BufferSlot("flag", Role.ARENA, bool_, (), offset=ZERO),
    )  # fmt: skip
    call = Call("too_large", (0, 1), (), as_expr(1), ZERO)
    checks = (Check(1, 0, "index {value} is out of range for axis of size 10"),)
    executable = Executable(Program(slots, (), (call,), as_expr(1), checks, (code("too_large"),)))
    assert executable(np.array(9)) == ()
    with pytest.raises(OutOfRangeError, match="index 12 is out of range"):
        executable(np.array(12))
    with pytest.raises(IndexError):
        executable.bind(np.array(10))()


M, K = Dim("m", 0, 1000), Dim("k", 1, 50)
EXPRESSIONS: tuple[Expr, ...] = (
    M * 3 + K, (M - 7) // 4, (M - 7) % 4, (M * M - 40) // (K + 1), (M - 9) % (K * 2), (K * 5 - M) // 3 * M,
    as_expr(-12),
)  # fmt: skip


@given(st.integers(0, 1000), st.integers(1, 50))
def test_main_computes_sizes_with_floor_semantics(m: int, k: int) -> None:
    (result,) = _sizes_executable()(np.zeros(m, np.float32), np.zeros(k, np.float32))
    assert result.tolist() == [e.evaluate({M: m, K: k}) for e in EXPRESSIONS]


@cache
def _sizes_executable() -> Executable:
    slots = (
        BufferSlot("a", Role.INPUT, f32, (as_expr(M),)), BufferSlot("b", Role.INPUT, f32, (as_expr(K),)),
        BufferSlot("out", Role.OUTPUT, i64, (len(EXPRESSIONS),)),
    )  # fmt: skip
    call = Call("sizes", (2,), EXPRESSIONS, as_expr(len(EXPRESSIONS)), ZERO)
    return Executable(Program(slots, (M, K), (call,), ZERO, objects=(code("sizes"),)))


def test_a_dim_no_input_shows_is_given_by_name() -> None:
    length = Dim("length", 0, 99)
    slots = (BufferSlot("out", Role.OUTPUT, i64, (1,)),)
    program = Program(slots, (length,), (Call("sizes", (0,), (), as_expr(1), ZERO),), ZERO, objects=(code("sizes"),))
    executable = Executable(program)
    assert executable(sizes={"length": 42})[0][0] == 42
    with pytest.raises(ShapeError, match="length"):
        executable()
    with pytest.raises(ShapeError, match="100"):
        executable(sizes={"length": 100})


def test_equal_programs_give_equal_text() -> None:
    assert main_ir(sum_of_three()) == main_ir(sum_of_three())


def test_scratch_is_the_largest_call_padded() -> None:
    assert scratch_stride(sum_of_three(), {N: 5}) == 64
