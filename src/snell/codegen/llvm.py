"""LLVM behind four functions: the only importer of llvmlite's compiler.

IR text becomes relocatable object bytes (`compile_object`) or assembly for people (`assembly`); object bytes become
callable addresses (`load`).  No optimisation pipeline runs: the emitter writes explicit vectors in SSA form, and code
generation alone gives the same speed (measured: 107.6 and 107.8 GFLOP/s).  Bytes depend on the text and the target only.

One thread at a time is inside LLVM, and no process forks meanwhile: a child would inherit locks of LLVM and of llvmlite
that nobody there releases.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, Final

import llvmlite.binding

from snell.errors import CompileError
from snell.locks import Lock
from snell.targets import Target

__all__ = ["CODEGEN_LEVEL", "LLVM_VERSION", "Library", "assembly", "compile_object", "load"]

# llvmlite has no type stubs: the foreign boundary.
llvm: Any = llvmlite.binding
# importlib.metadata would say the same, after 20 ms of imports.
LLVM_VERSION: str = llvmlite.__version__

# Levels 1, 2 and 3 give the same speed and cost the same on Zen 3 (GEMM, softmax, Q4_1); level 0 does not allocate
# registers across blocks.
CODEGEN_LEVEL = 2


class Library:
    """Loaded code: addresses of its functions, valid for as long as this object lives."""

    __slots__ = ("_tracker", "addresses")

    addresses: dict[str, int]

    def __init__(self, tracker: Any, addresses: dict[str, int]) -> None:
        self._tracker = tracker
        self.addresses = addresses

    def __getitem__(self, name: str) -> int:
        """Address of a function; CompileError when the library does not have it."""
        if name not in self.addresses:
            raise CompileError(f"expected one of {sorted(self.addresses)}, received {name!r}")
        return self.addresses[name]


def compile_object(llvm_ir: str, target: Target, level: int = CODEGEN_LEVEL) -> bytes:
    """Object file of a module; CompileError with LLVM's message when the text is not valid IR."""
    with _INSIDE:
        return bytes(_machine(target, level).emit_object(_parse(llvm_ir, target)))


def assembly(llvm_ir: str, target: Target, level: int = CODEGEN_LEVEL) -> str:
    """Assembly text of a module, for reading."""
    with _INSIDE:
        return str(_machine(target, level).emit_assembly(_parse(llvm_ir, target)))


def load(image: bytes, names: Iterable[str]) -> Library:
    """Link an object file into this process and look up `names` (its defined functions)."""
    wanted = tuple(names)
    with _INSIDE:
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name in wanted:
            builder.export_symbol(name)
        try:
            tracker = builder.link(_jit(), f"snell.{next(_SERIAL)}")
        except RuntimeError as error:
            raise CompileError(f"linking {', '.join(wanted)} failed: {error}") from error
        return Library(tracker, {name: tracker[name] for name in wanted})


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
