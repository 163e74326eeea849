"""A program goes to bytes and back with equal value; damaged bytes are refused."""

from dataclasses import replace

import pytest

from snell.dtypes import f32, i64
from snell.errors import CompileError, FileFormatError
from snell.runtime.program import BufferSlot, Call, Check, CodeObject, Joint, Program, Role, from_bytes, to_bytes
from snell.symbolic import Dim, as_expr

SEQ = Dim("seq", 0, 512, 4, (8, 64))
ROWS = Dim("rows")
PROGRAM = Program(
    buffers=(
        BufferSlot("x", Role.INPUT, f32, (as_expr(SEQ), 8)),
        BufferSlot("w", Role.FROZEN, f32, (8, 8), stored_bytes=as_expr(512)),
        BufferSlot("t", Role.ARENA, i64, (SEQ * ROWS + 3,), offset=(SEQ * 3 + 63) // 64 * 64),
        BufferSlot("y", Role.OUTPUT, f32, (as_expr(SEQ), 8), donated=0),
    ),
    dims=(SEQ, ROWS),
    steps=(Call("k.0", (0, 1, 2, 3), (SEQ * 2 - ROWS,), (SEQ + 7) // 8, SEQ % 5 * 64, 4, False),),
    arena_bytes=SEQ * ROWS * 8 + 64,
    checks=(Check(2, 2, "index {value}"),),
    objects=(CodeObject(("k.0",), b"\x7fELF code"),),
    main=CodeObject(("main", "table"), b"main code"),
)


def test_bytes_give_the_program_back() -> None:
    back = from_bytes(to_bytes(PROGRAM))
    assert back == PROGRAM
    assert back.dims[0].typical == (8, 64)
    assert to_bytes(back) == to_bytes(PROGRAM)


def test_calls_of_one_dispatch_come_back_as_one_step() -> None:
    joint = Joint((*PROGRAM.calls, *PROGRAM.calls), 3)
    program = replace(PROGRAM, steps=(joint,))
    assert from_bytes(to_bytes(program)).steps == (joint,)
    assert program.calls == joint.calls


@pytest.mark.parametrize("cut", [0, 10, 40, 60, -1])
def test_cut_bytes_are_refused(cut: int) -> None:
    with pytest.raises(FileFormatError):
        from_bytes(to_bytes(PROGRAM)[:cut])


def test_changed_bytes_are_refused() -> None:
    data = bytearray(to_bytes(PROGRAM))
    data[-3] ^= 1
    with pytest.raises(FileFormatError, match="damaged"):
        from_bytes(bytes(data))


def test_a_slot_that_does_not_exist_is_named() -> None:
    call = Call("k", (7,), (), as_expr(1), as_expr(0))
    with pytest.raises(CompileError, match=r"k: .*below 0.*7"):
        Program((), (), (call,), as_expr(0)).verify()


def test_an_unknown_dim_is_named() -> None:
    call = Call("k", (), (as_expr(SEQ),), as_expr(1), as_expr(0))
    with pytest.raises(CompileError, match="seq"):
        Program((), (), (call,), as_expr(0)).verify()


def test_an_arena_buffer_needs_an_offset() -> None:
    with pytest.raises(CompileError, match="offset"):
        Program((BufferSlot("t", Role.ARENA, f32, (1,)),), (), (), as_expr(0)).verify()
