"""Kernels to object code: each distinct kernel is emitted and compiled once, and found in the cache by its text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from snell.codegen.emitter import EmittedKernel, emit_kernel
from snell.codegen.llvm import compile_object
from snell.codegen.vector_math import emit_function
from snell.loops.ir import Kernel
from snell.runtime.cache import object_key
from snell.runtime.program import CodeObject
from snell.targets import Target

__all__ = ["CompiledKernel", "KernelCompiler", "ObjectSource", "Progress"]

ObjectSource = Callable[[str, Callable[[], bytes]], bytes]
# (kernels compiled, kernels of the program); (0, 0) when a compilation begins, before its kernels are known.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel with its functions (one a phase, named by content) and object file."""

    emitted: EmittedKernel
    functions: tuple[str, ...]
    code: CodeObject


@dataclass(slots=True)
class KernelCompiler:
    """Compiles kernels for a target; `fetch(key, build)` is the object cache; `total` distinct kernels are expected."""

    target: Target
    fetch: ObjectSource
    progress: Progress | None = None
    total: int = 0
    compiled: dict[Kernel, CompiledKernel] = field(default_factory=dict[Kernel, CompiledKernel])

    def __call__(self, kernel: Kernel) -> CompiledKernel:
        found = self.compiled.get(kernel)
        if found is None:
            found = self.compiled[kernel] = self._compile(kernel)
            if self.progress is not None:
                self.progress(len(self.compiled), self.total)
        return found

    def _compile(self, kernel: Kernel) -> CompiledKernel:
        emitted = emit_kernel(kernel, self.target, emit_function)
        digest = hashlib.sha256(f"{self.target!r}\n{emitted.llvm_ir}".encode()).hexdigest()
        stem = f"k{digest[:16]}"
        text = emitted.llvm_ir.replace(f"@{kernel.name}.", f"@{stem}.")
        functions = tuple(name.replace(f"{kernel.name}.", f"{stem}.", 1) for name in emitted.functions)
        image = self.fetch(object_key(text, self.target), lambda: compile_object(text, self.target))
        return CompiledKernel(emitted, functions, CodeObject(functions, image))
