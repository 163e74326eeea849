"""Text to object bytes to addresses, for this machine and as assembly for others; the same bytes in every process."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import subprocess
import sys

import pytest
from tests.codegen.fuzz import random_case

from snell.codegen import llvm
from snell.codegen.emitter import emit_kernel
from snell.codegen.host import host_target
from snell.codegen.loading import load
from snell.errors import CompileError
from snell.targets import AVX2, AVX512, NEON, Target

DOUBLE = "define i64 @double(i64 %x) {\n %y = add i64 %x, %x\n ret i64 %y\n}\n"

DIGEST = """
import hashlib
from snell.codegen import llvm
from snell.codegen.emitter import emit_kernel
from snell.codegen.host import host_target
from tests.codegen.fuzz import random_case
text = emit_kernel(random_case(3).kernel, host_target()).llvm_ir
print(hashlib.sha256(text.encode() + llvm.compile_object(text, host_target())).hexdigest())
"""


def test_object_bytes_load_into_this_process_and_live_as_long_as_the_library() -> None:
    library = load(llvm.compile_object(DOUBLE, host_target()), ["double"])
    gc.collect()
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library["double"])(21) == 42
    with pytest.raises(CompileError, match="expected one of"):
        library["triple"]


def test_two_libraries_may_define_the_same_name() -> None:
    other = DOUBLE.replace("add i64 %x, %x", "mul i64 %x, 10")
    libraries = [load(llvm.compile_object(text, host_target()), ["double"]) for text in (DOUBLE, other)]
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert [call(library["double"])(3) for library in libraries] == [6, 30]


def test_invalid_text_is_a_compile_error_with_llvms_message() -> None:
    with pytest.raises(CompileError, match="invalid LLVM IR"):
        llvm.compile_object(DOUBLE.replace("%y\n", "%z\n"), host_target())


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON], ids=lambda target: target.name)
@pytest.mark.parametrize("seed", range(6))
def test_kernels_assemble_for_every_described_target(target: Target, seed: int) -> None:
    text = llvm.assembly(emit_kernel(random_case(seed).kernel, target).llvm_ir, target)
    assert "case.0" in text
    assert llvm.compile_object(emit_kernel(random_case(seed).kernel, target).llvm_ir, target)


def test_a_product_uses_the_widest_registers_and_fused_instructions() -> None:
    kernel = random_case(0).kernel
    expected = {AVX2.name: ("ymm", "vfmadd"), AVX512.name: ("zmm", "vfmadd"), NEON.name: ("v0.4s", "fmla")}
    seen: dict[str, set[str]] = {name: set() for name in expected}
    for seed in range(12):
        kernel = random_case(seed).kernel
        for target in (AVX2, AVX512, NEON):
            text = llvm.assembly(emit_kernel(kernel, target).llvm_ir, target)
            seen[target.name] |= {word for word in expected[target.name] if word in text}
    assert {name: tuple(sorted(words)) for name, words in seen.items()} == {
        name: tuple(sorted(words)) for name, words in expected.items()
    }


def test_text_and_bytes_are_the_same_in_another_process() -> None:
    text = emit_kernel(random_case(3).kernel, host_target()).llvm_ir
    here = hashlib.sha256(text.encode() + llvm.compile_object(text, host_target())).hexdigest()
    there = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = ['src', '.']\n{DIGEST}"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77"},
    )
    assert there.stdout.strip() == here


def test_the_host_is_described_by_what_it_supports() -> None:
    host = host_target()
    assert host.vector_bits in (128, 256, 512)
    assert host.l1_bytes < host.l2_bytes < host.l3_bytes
    assert host.lanes(random_case(0).kernel.buffers[0].dtype) == host.vector_bits // 32
