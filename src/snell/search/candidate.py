"""Candidates: a kernel as text, which a worker in another process reads, verifies, compiles and times.

A candidate has the kernel, the kernels that pack its frozen operands once, and which of its buffers it writes.  Text is
the kernel's own form (`loops.text`), so nothing but loop IR passes between the processes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from snell.loops.build import BuiltKernel
from snell.loops.ir import Buffer, BufferScope
from snell.loops.parse import parse_kernel
from snell.loops.text import print_kernel

__all__ = ["Candidate", "PackingKernel", "candidate_of", "read_buffers"]


@dataclass(frozen=True, slots=True)
class PackingKernel:
    """A kernel that copies `source` into `packed`."""

    kernel: str
    source: str
    packed: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """The kernel's text, names of the buffers it writes, its least claim, and its packing kernels."""

    kernel: str
    writes: tuple[str, ...]
    claim: int
    prepares: tuple[PackingKernel, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """The candidate as JSON has it."""
        return asdict(self)

    @staticmethod
    def from_data(data: dict[str, Any]) -> Candidate:
        """What `to_data` wrote."""
        prepares = tuple(PackingKernel(**item) for item in data["prepares"])
        return Candidate(data["kernel"], tuple(data["writes"]), data["claim"], prepares)


def candidate_of(built: BuiltKernel) -> Candidate:
    """The candidate of a built kernel."""
    text = print_kernel(built.kernel)
    prepares: list[PackingKernel] = []
    for number, prepare in enumerate(built.prepares):
        source, packed = (tensor.name for tensor in prepare.tensors)
        # A packed weight is named after what it copies and how, which is no word of the text form.
        name = f"packed{number}"
        text = text.replace(packed, name)
        prepares.append(PackingKernel(print_kernel(prepare.kernel).replace(packed, name), source, name))
    writes = tuple(sorted(tensor.name for tensor in built.writes))
    return Candidate(text, writes, built.claim, tuple(prepares))


def read_buffers(candidate: Candidate) -> list[Buffer]:
    """The parameters that the caller provides, by name: read ones, and the sources of packed ones."""
    packed = {prepare.packed for prepare in candidate.prepares}
    kernels = [parse_kernel(text) for text in (candidate.kernel, *(p.kernel for p in candidate.prepares))]
    found = {
        buffer.name: buffer
        for kernel in kernels
        for buffer in kernel.buffers
        if buffer.scope is BufferScope.PARAMETER and buffer.name not in packed and buffer.name not in candidate.writes
    }
    return [found[name] for name in sorted(found)]
