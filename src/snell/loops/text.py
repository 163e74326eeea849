"""Kernels as text: plain pseudo-code that a person reads and `loops.parse` reads back.

    kernel gemm
      axis i 197
      axis j 333
      axis k 130
      parameter A f32[197, 130]
      parameter B f32[130, 333] blocked (1:16 0:1 1:1)
      parameter C f32[197, 333] writable
      accumulator acc sum f32 (i, j)
      phase i:96
        for j:16 i:6
          for i:1u j:8v
            acc = 0:f32
          for k:4 k:1u i:1u j:8v
            acc += Mul(A[i, k], B[k, j])
          for i:1u j:8v
            C[i, j] = acc

A load's guards follow a bar: `A[i, j | i - 2, 9 - i]` is 0 unless both are >= 0.  `{T[i] in 0..9}` is a loaded index.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import assert_never

from snell.errors import VerificationError
from snell.graph.primitives import ScalarFunction
from snell.loops.ir import (
    Accumulator,
    Allocate,
    Blocked,
    Buffer,
    Combine,
    Dense,
    Init,
    Kernel,
    Layout,
    Loop,
    Prefetch,
    ReadAccumulator,
    Statement,
    Store,
    Strided,
    Tee,
    Update,
    statements,
)
from snell.rewrite.term import Cast, Index, Load, Number, Term, walk
from snell.symbolic import Axis, Dim, Expr, FloorDiv, Opaque, Remainder, as_expr

__all__ = ["print_kernel", "show_expression", "show_term"]

_INDENT = "  "


def print_kernel(kernel: Kernel) -> str:
    """The kernel as text that `parse_kernel` reads back to an equal kernel."""
    lines = [f"kernel {kernel.name}"]
    lines += [_INDENT + line for line in _declarations(kernel)]
    for phase in kernel.phases:
        levels = "".join(f" {level}" for level in phase.levels)
        lines.append(f"{_INDENT}phase{levels}")
        lines += _body(phase.body, _INDENT * 2)
    return "\n".join(lines) + "\n"


def _declarations(kernel: Kernel) -> list[str]:
    lines = [_show_dim(dim) for dim in kernel.dims]
    axes = _axes(kernel)
    if len({axis.name for axis in axes}) < len(axes):
        raise VerificationError(f"kernel {kernel.name}: two axes have one name; rename one to print it")
    lines += [f"axis {axis.name} {show_expression(as_expr(axis.extent))}" for axis in axes]
    lines += [_show_buffer(buffer) for buffer in kernel.buffers]
    return lines + [_show_accumulator(accumulator) for accumulator in _accumulators(kernel)]


def _show_dim(dim: Dim) -> str:
    multiple = f" multiple {dim.multiple}" if dim.multiple != 1 else ""
    typical = f" typical {' '.join(map(str, dim.typical))}" if dim.typical else ""
    return f"dim {dim.name} {dim.min}..{dim.max}{multiple}{typical}"


def _show_buffer(buffer: Buffer) -> str:
    tensor = buffer.tensor
    parts = [f"{buffer.scope.value} {buffer.name} {buffer.dtype}[{_list(buffer.shape)}]"]
    if tensor.shape != buffer.shape:
        parts.append(f"of [{_list(tensor.shape)}]")
    if tensor.storage is not None:
        parts.append(f"storage {tensor.storage.offset} ({', '.join(map(str, tensor.storage.strides))})")
    parts += _show_layout(buffer.layout)
    if buffer.writable:
        parts.append("writable")
    return " ".join(parts)


def _show_layout(layout: Layout) -> list[str]:
    match layout:
        case Dense():
            return []
        case Strided(offset, strides):
            return [f"strided {offset} ({', '.join(map(str, strides))})"]
        case Blocked(blocks):
            return [f"blocked ({' '.join(f'{block.dimension}:{block.size}' for block in blocks)})"]
        case _:
            assert_never(layout)


def _show_accumulator(accumulator: Accumulator) -> str:
    axes = f"({', '.join(axis.name for axis in accumulator.axes)})"
    partial = f" partial ({', '.join(axis.name for axis in accumulator.partial)})" if accumulator.partial else ""
    return f"accumulator {accumulator.name} {accumulator.combine.value} {accumulator.dtype} {axes}{partial}"


def _body(body: tuple[Statement, ...], indent: str) -> list[str]:
    lines: list[str] = []
    for statement in body:
        match statement:
            case Loop():
                lines += _loop(statement, indent)
            case Allocate(buffers):
                lines += [indent + _show_buffer(buffer) for buffer in buffers]
                lines.append(f"{indent}allocate {', '.join(buffer.name for buffer in buffers)}")
            case Init(accumulator, value):
                lines.append(f"{indent}{accumulator.name} = {show_term(value)}")
            case Update(accumulator, value):
                sign = "+=" if accumulator.combine is Combine.SUM else "max="
                lines.append(f"{indent}{accumulator.name} {sign} {show_term(value)}")
            case Store(tensor, indices, value):
                lines.append(f"{indent}{tensor.name}[{_list(indices)}] = {show_term(value)}")
            case Prefetch(tensor, indices):
                lines.append(f"{indent}prefetch {tensor.name}[{_list(indices)}]")
            case _:
                assert_never(statement)
    return lines


def _loop(loop: Loop, indent: str) -> list[str]:
    """Levels with nothing between them stand on one line."""
    levels = [str(loop.level)]
    while _is_plain(loop) and len(loop.body) == 1 and isinstance(loop.body[0], Loop) and _is_plain(loop.body[0]):
        loop = loop.body[0]
        levels.append(str(loop.level))
    lower = f" from {show_expression(loop.lower)}" if loop.lower is not None else ""
    upper = f" below {show_expression(loop.upper)}" if loop.upper is not None else ""
    return [f"{indent}for {' '.join(levels)}{lower}{upper}", *_body(loop.body, indent + _INDENT)]


def _is_plain(loop: Loop) -> bool:
    return loop.lower is None and loop.upper is None


def show_term(item: Term) -> str:
    """A term in function notation."""
    arguments = ", ".join(show_term(argument) for argument in item.args)
    match item.op:
        case Number(value):
            return f"{_show_number(value)}:{item.dtype}"
        case Index(expression):
            return f"index({show_expression(expression)})"
        case Load(tensor, indices, guards):
            return f"{tensor.name}[{_list(indices)}{f' | {_list(guards)}' if guards else ''}]"
        case ReadAccumulator(accumulator):
            return accumulator.name
        case Tee(tensor, indices):
            return f"tee({tensor.name}[{_list(indices)}], {arguments})"
        case Cast():
            return f"{item.dtype}({arguments})"
        case ScalarFunction(name):
            return f"{name}({arguments})"
        case _:
            return f"{type(item.op).__name__}({arguments})"


def _show_number(value: Fraction | float) -> str:
    return str(value)


def _list(expressions: Iterable[object]) -> str:
    return ", ".join(show_expression(as_expr(expression)) for expression in expressions)


def show_expression(expression: Expr) -> str:
    """An index expression; loaded indices in braces with their range."""
    parts: list[str] = []
    for monomial, coefficient in expression.terms:
        factors = [_show_atom(atom) for atom in monomial]
        if coefficient != 1:
            factors.insert(0, str(coefficient))
        parts.append("*".join(factors))
    if expression.constant or not parts:
        parts.append(str(expression.constant))
    return " + ".join(parts).replace("+ -", "- ")


def _show_atom(atom: object) -> str:
    match atom:
        case FloorDiv(numerator, divisor):
            return f"(({show_expression(numerator)}) // ({show_expression(divisor)}))"
        case Remainder(numerator, divisor):
            return f"(({show_expression(numerator)}) % ({show_expression(divisor)}))"
        case Opaque(key, lower, upper):
            if not isinstance(key, Term):
                raise VerificationError(f"expected a term as the key of an opaque index, received {key!r}")
            return f"{{{show_term(key)} in {lower}..{upper}}}"
        case _:
            return str(atom)


def _axes(kernel: Kernel) -> list[Axis]:
    found: dict[Axis, None] = {}
    for phase in kernel.phases:
        found.update(dict.fromkeys(level.axis for level in phase.levels))
        for statement in statements(phase.body):
            found.update(dict.fromkeys(_statement_axes(statement)))
    return list(found)


def _statement_axes(statement: Statement) -> list[Axis]:
    match statement:
        case Loop(level, _, lower, upper):
            bounds = [bound for bound in (lower, upper) if bound is not None]
            return [level.axis, *_sorted_axes(bounds)]
        case Allocate():
            return []
        case Init(accumulator, value) | Update(accumulator, value):
            return [*accumulator.axes, *accumulator.partial, *_term_axes(value)]
        case Store(_, indices, value):
            return [*_sorted_axes(indices), *_term_axes(value)]
        case Prefetch(_, indices):
            return _sorted_axes(indices)
        case _:
            assert_never(statement)


def _term_axes(value: Term) -> list[Axis]:
    axes = sorted(value.free, key=str)
    for item in walk(value):
        if isinstance(item.op, Tee):
            axes += _sorted_axes(item.op.indices)
    return axes


def _sorted_axes(expressions: Iterable[Expr]) -> list[Axis]:
    return sorted({axis for expression in expressions for axis in expression.axes()}, key=str)


def _accumulators(kernel: Kernel) -> list[Accumulator]:
    found: dict[Accumulator, None] = {}
    for phase in kernel.phases:
        for statement in statements(phase.body):
            if isinstance(statement, Init | Update):
                found[statement.accumulator] = None
    if len({accumulator.name for accumulator in found}) < len(found):
        raise VerificationError(f"kernel {kernel.name}: two accumulators have one name; rename one to print it")
    return list(found)
