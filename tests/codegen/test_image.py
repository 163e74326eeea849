"""Machine code as an image runs wherever it is put, and what cannot be one is linked by LLVM."""

import ctypes
import os
from dataclasses import replace

import pytest
from tests.codegen.fuzz import random_case

from snell.codegen import llvm
from snell.codegen.emitter import emit_kernel
from snell.codegen.host import host_target
from snell.codegen.image import PAGE, image_from_bytes, image_to_bytes, is_image
from snell.codegen.loading import Library, load
from snell.errors import CompileError, FileFormatError
from snell.targets import NEON

MAKES_IMAGES = host_target().triple.startswith("x86_64") and "linux" in host_target().triple
pytestmark = pytest.mark.skipif(not MAKES_IMAGES, reason="images are made for 64-bit x86 under Linux")

COUNTER = """
@count = internal global i64 40
@zeros = internal global [3000 x i64] zeroinitializer
@where = global ptr getelementptr (i8, ptr @count, i64 0)
declare i64 @labs(i64)
define i64 @next() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}
define i64 @size(i64 %x) {
  %y = call i64 @labs(i64 %x)
  ret i64 %y
}
define i64 @through() {
  %p = load ptr, ptr @where
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @last() {
  %p = getelementptr i64, ptr @zeros, i64 2999
  %v = load i64, ptr %p
  ret i64 %v
}
define ptr @function() {
  ret ptr @labs
}
"""
NAMES = ("next", "size", "through", "last", "function")


def call(library: Library, name: str, *arguments: int) -> int:
    kinds = [ctypes.c_int64] * len(arguments)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(library[name])(*arguments)


def test_kernels_are_images_whose_bytes_describe_them_whole() -> None:
    for seed in range(8):
        code = llvm.compile_object(emit_kernel(random_case(seed).kernel, host_target()).llvm_ir, host_target())
        assert is_image(code)
        assert image_to_bytes(image_from_bytes(code)) == code


def test_an_image_has_data_of_its_own_calls_the_process_and_finds_its_places() -> None:
    code = llvm.compile_object(COUNTER, host_target())
    assert is_image(code)
    assert image_from_bytes(code).data_bytes > 3000 * 8 > len(image_from_bytes(code).data)
    first, second = load(code, NAMES), load(code, NAMES)
    assert [call(first, "next") for _ in range(3)] == [41, 42, 43]
    assert call(second, "next") == 41
    assert (call(first, "through"), call(second, "through"), call(first, "last")) == (43, 41, 0)
    assert call(first, "size", -7) == 7
    assert call(first, "function") == ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_to_data_of_its_own() -> None:
    library = load(llvm.compile_object(COUNTER, host_target()), NAMES)
    child = os.fork()
    if child == 0:
        os._exit(call(library, "next") & 0xFF)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 41
    assert call(library, "next") == 41


def test_code_that_asks_for_a_linker_stays_an_object_file_and_runs() -> None:
    text = (
        "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
        "[{ i32, ptr, ptr } { i32 65535, ptr @begin, ptr null }]\n"
        "define internal void @begin() {\n ret void\n}\n"
        "define i64 @five() {\n ret i64 5\n}\n"
    )
    code = llvm.compile_object(text, host_target())
    assert not is_image(code)
    assert call(load(code, ["five"]), "five") == 5


def test_code_for_another_processor_is_an_object_file() -> None:
    assert not is_image(llvm.compile_object("define i64 @f() {\n ret i64 5\n}\n", replace(NEON)))


def test_a_missing_function_and_an_unknown_import_are_compile_errors() -> None:
    code = llvm.compile_object(COUNTER, host_target())
    with pytest.raises(CompileError, match="it lacks absent"):
        load(code, ["next", "absent"])
    text = "declare i64 @no_such_function()\ndefine i64 @f() {\n %x = call i64 @no_such_function()\n ret i64 %x\n}\n"
    with pytest.raises(CompileError, match="no_such_function"):
        load(llvm.compile_object(text, host_target()), ["f"])


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d[:30], lambda d: d + b"x", lambda d: d[:22] + b"\0" * 40]
)
def test_cut_or_changed_images_are_refused(damage) -> None:
    code = llvm.compile_object(COUNTER, host_target())
    with pytest.raises(FileFormatError):
        image_from_bytes(damage(code))


def test_data_begins_on_a_page_that_is_not_executable() -> None:
    image = image_from_bytes(llvm.compile_object(COUNTER, host_target()))
    assert image.data_start % PAGE == 0
    assert image.data_start >= len(image.code)
