"""LLVM behind three functions: the only importer of llvmlite's compiler.

IR text becomes machine code (`compile_object`) or assembly for people (`assembly`).  Machine code is an image, which
`loading` puts in place, wherever it can be one, else an object file, which LLVM links (`linked`).  No optimisation
pipeline runs: the emitter writes explicit vectors in SSA form, and code generation alone gives the same speed (measured:
107.6 and 107.8 GFLOP/s).  Bytes depend on the text and the target only.

One thread at a time is inside LLVM, and no process forks meanwhile: a child would inherit locks of LLVM and of llvmlite
that nobody there releases.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final

import llvmlite.binding

from snell.codegen.image import image_to_bytes
from snell.codegen.linking import image_of
from snell.errors import CompileError, UnsupportedError
from snell.locks import Lock
from snell.targets import Target

__all__ = ["CODEGEN_LEVEL", "LLVM_VERSION", "assembly", "compile_object", "linked"]

# llvmlite has no type stubs: the foreign boundary.
llvm: Any = llvmlite.binding
# importlib.metadata would say the same, after 20 ms of imports.
LLVM_VERSION: str = llvmlite.__version__

# Levels 1, 2 and 3 give the same speed and cost the same on Zen 3 (GEMM, softmax, Q4_1); level 0 does not allocate
# registers across blocks.
CODEGEN_LEVEL = 2


def compile_object(llvm_ir: str, target: Target, level: int = CODEGEN_LEVEL) -> bytes:
    """Machine code of a module; CompileError with LLVM's message when the text is not valid IR."""
    with _INSIDE:
        code = bytes(_machine(target, level).emit_object(_parse(llvm_ir, target)))
    if not target.triple.startswith("x86_64") or "linux" not in target.triple:
        return code
    try:
        return image_to_bytes(image_of(code))
    except UnsupportedError:
        return code


def assembly(llvm_ir: str, target: Target, level: int = CODEGEN_LEVEL) -> str:
    """Assembly text of a module, for reading."""
    with _INSIDE:
        return str(_machine(target, level).emit_assembly(_parse(llvm_ir, target)))


def linked(code: bytes, names: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """An object file in this process: what keeps it there, and the addresses of `names` (its defined functions)."""
    with _INSIDE:
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            builder.export_symbol(name)
        try:
            tracker = builder.link(_jit(), f"snell.{next(_SERIAL)}")
        except RuntimeError as error:
            raise CompileError(f"linking {', '.join(names)} failed: {error}") from error
        return tracker, {name: tracker[name] for name in names}


_SERIAL = itertools.count()
_INSIDE: Final = Lock()


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def _jit() -> Any:
    _initialize()
    return llvm.create_lljit_compiler()


@lru_cache(maxsize=16)
def _machine(target: Target, level: int) -> Any:
    _initialize()
    chosen = llvm.Target.from_triple(target.triple)
    return chosen.create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="default"
    )


def _parse(llvm_ir: str, target: Target) -> Any:
    _initialize()
    try:
        module = llvm.parse_assembly(f'target triple = "{target.triple}"\n{llvm_ir}')
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the emitter wrote invalid LLVM IR: {error}") from error
    return module


if sys.platform != "win32":
    os.register_at_fork(before=_INSIDE.acquire, after_in_parent=_INSIDE.release, after_in_child=_INSIDE.release)
