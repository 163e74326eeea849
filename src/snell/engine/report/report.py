"""Report: what a program was compiled to, for reading."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property

from snell.codegen.llvm import assembly
from snell.compiler.compile import Compilation
from snell.compiler.lowered import Lowered
from snell.engine.report.page import page
from snell.engine.report.rules import RuleLine, rule_lines
from snell.engine.report.search_curve import SearchPoint
from snell.engine.whole_file import write_whole
from snell.loops.text import print_kernel
from snell.targets import Target

__all__ = ["KernelReport", "Report"]


@dataclass(frozen=True)
class KernelReport:
    """One distinct kernel: which values it computes, how often it is called, and its code at each level."""

    name: str
    computes: tuple[str, ...]
    calls: int
    loops: str
    llvm_ir: str
    target: Target

    @cached_property
    def assembly(self) -> str:
        """Machine code as text."""
        return assembly(self.llvm_ir, self.target)


@dataclass(frozen=True)
class Report:
    """The program's definitions, kernels and pass times; `str(report)` is a summary to read."""

    definitions: tuple[str, ...]
    kernels: tuple[KernelReport, ...]
    seconds: dict[str, float]
    rewriting: tuple[str, ...]
    arena: str
    compilation: Compilation = field(repr=False)
    search: tuple[SearchPoint, ...] = ()

    @cached_property
    def rules(self) -> tuple[RuleLine, ...]:
        """Which rules shaped the program and what they bought; worked out when it is asked for."""
        return rule_lines(self.compilation)

    def to_html(self, path: str | os.PathLike[str], *, measure: bool = True) -> None:
        """Write a page that shows it all and needs nothing else; `measure` times each kernel on this machine."""
        write_whole(path, page(self, measure=measure).encode())

    def __str__(self) -> str:
        lines = ["passes"]
        lines += [f"  {name:18} {1e3 * value:9.1f} ms" for name, value in self.seconds.items()]
        lines += ["definitions", *(f"  {text}" for text in self.definitions)]
        lines += [f"decided by measurement: {decision}" for decision in self.compilation.options.grouping.decisions]
        lines.append(f"arena  {self.arena} bytes")
        for kernel in self.kernels:
            lines.append(f"kernel {kernel.name}, {kernel.calls} calls, computes {', '.join(kernel.computes)}")
            lines += [f"  {line}" for line in kernel.loops.splitlines()]
        return "\n".join(lines)


def report_of(compilation: Compilation, target: Target, search: tuple[SearchPoint, ...] = ()) -> Report:
    """The report of a compilation; `search` is the curve of the program's searches."""
    calls: dict[str, int] = {}
    computes: dict[str, tuple[str, ...]] = {}
    for built in compilation.lowered.kernels:
        name = _name(compilation, built.kernel)
        calls[name] = calls.get(name, 0) + 1
        computes.setdefault(name, tuple(sorted(tensor.name for tensor in built.writes)))
    kernels = [
        KernelReport(name, computes[name], calls[name], print_kernel(kernel), compiled.emitted.llvm_ir, target)
        for kernel, compiled in compilation.kernels.compiled.items()
        if (name := _name(compilation, kernel)) in calls
    ]
    return Report(
        tuple(_definitions(compilation.lowered)),
        tuple(kernels),
        dict(compilation.times.seconds),
        tuple(f"{each.before}: {each.report}" for each in compilation.rewritten),
        str(compilation.assembled.program.arena_bytes),
        compilation,
        search,
    )


def _definitions(lowered: Lowered) -> list[str]:
    """A line a definition; those of a repetition's body are indented under its own line."""
    lines = [str(definition) for definition in lowered.definitions()]
    for step in lowered.repetitions():
        carried = ", ".join(f"{c.after.name} after {c.before.name} from {c.initial.name}" for c in step.carries)
        walked = ", ".join(f"{row.row.name} in {row.whole.name}" for row in step.rows)
        parts = [part for part in (carried and f"carries {carried}", walked and f"rows {walked}") if part]
        lines.append(f"{step.name} repeats {step.length} times: {'; '.join(parts)}")
        lines += [f"  {line}" for line in _definitions(step.body)]
    return lines


def _name(compilation: Compilation, kernel: object) -> str:
    return compilation.kernels.compiled[kernel].functions[-1].split(".")[0]  # type: ignore[index]
