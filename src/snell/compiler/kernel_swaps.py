"""A lowered program with other kernels in the place of some, such as those of other plans for the same groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from snell.compiler.lowered import Lowered, RepeatStep, SideBySide, Step
from snell.errors import CompileError
from snell.loops.build import BuiltKernel, renamed_kernel
from snell.loops.ir import Kernel
from snell.rewrite.term import Tensor

__all__ = ["KernelSwaps", "swapped_kernels"]

KernelSwaps = Mapping[Kernel, tuple[BuiltKernel, BuiltKernel]]
"""By the kernel that goes: what was built of its canonical group, and what takes its place, on the same group's tensors."""


def swapped_kernels(lowered: Lowered, swaps: KernelSwaps) -> Lowered:
    """The program with the kernels replaced wherever they are called; CompileError where one reads another tensor."""
    return replace(lowered, steps=tuple(_swapped(step, swaps) for step in lowered.steps))


def _swapped(step: Step, swaps: KernelSwaps) -> Step:
    match step:
        case RepeatStep():
            return replace(step, steps=tuple(_swapped(inner, swaps) for inner in step.steps))
        case SideBySide():
            return SideBySide(tuple(_swapped_kernel(kernel, swaps) for kernel in step.kernels))
        case BuiltKernel():
            return _swapped_kernel(step, swaps)


def _swapped_kernel(step: BuiltKernel, swaps: KernelSwaps) -> BuiltKernel:
    pair = swaps.get(step.kernel)
    if pair is None:
        return step
    old, new = pair
    names = _names(old, step)
    made = {tensor for prepare in new.prepares for tensor in prepare.writes}
    missing = {*new.tensors, *(prepare.tensors[0] for prepare in new.prepares)} - made - names.keys()
    if missing:
        unknown = ", ".join(sorted(tensor.name for tensor in missing))
        raise CompileError(f"expected a kernel on the tensors of the one it replaces, received one on {unknown}, too")
    return renamed_kernel(new, names)


def _names(canonical: BuiltKernel, step: BuiltKernel) -> dict[Tensor, Tensor]:
    """What the canonical group's tensors stand for in a call."""
    names = dict(zip(canonical.tensors, step.tensors, strict=True))
    for own, called in zip(canonical.prepares, step.prepares, strict=True):
        names |= dict(zip(own.tensors, called.tensors, strict=True))
    return names
