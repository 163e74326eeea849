"""Solves the dims of a program from the shapes of its inputs, and checks every shape against them.

A dim is known from a shape entry that is linear in it alone (`seq`, `2*seq + 1`); other entries are checked once the
dims are known.  A dim that no input determines is given by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snell.errors import ShapeError
from snell.runtime.program import Program, Role
from snell.symbolic import Dim, Expr, as_expr, show_shape

__all__ = ["SizeSolver"]


@dataclass(frozen=True, slots=True)
class _Equation:
    """`coefficient * dim + constant` is the size of an input's axis."""

    dim: Dim
    argument: int
    axis: int
    coefficient: int
    constant: int


class SizeSolver:
    """`solve(shapes, given)` for one program; `inputs` are its input slots in order."""

    def __init__(self, program: Program) -> None:
        self.dims = program.dims
        self.inputs = tuple(program.buffers[slot] for slot in program.slots(Role.INPUT))
        self.is_static = not self.dims
        self._equations: dict[Dim, _Equation] = {}
        for argument, slot in enumerate(self.inputs):
            for axis, size in enumerate(slot.shape):
                self._learn(argument, axis, as_expr(size))

    def solve(self, shapes: Sequence[tuple[int, ...]], given: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """The dims' values in order; ShapeError names the input, the axis and the dim that do not fit."""
        self._check_ranks(shapes)
        given = given or {}
        values = {dim: self._value(dim, shapes, given) for dim in self.dims}
        for slot, shape in zip(self.inputs, shapes, strict=True):
            for axis, (expected, actual) in enumerate(zip(slot.shape, shape, strict=True)):
                wanted = expected if isinstance(expected, int) else int(expected.evaluate(values))
                if wanted != actual:
                    detail = "" if isinstance(expected, int) else f" (= {wanted})"
                    raise ShapeError(f"input {slot.name!r} axis {axis}: expected {expected}{detail}, received {actual}")
        return tuple(values.values())

    def unsolved(self) -> tuple[Dim, ...]:
        """The dims that no input's shape tells: each call has to give them."""
        return tuple(dim for dim in self.dims if dim not in self._equations)

    def _learn(self, argument: int, axis: int, size: Expr) -> None:
        if len(size.terms) != 1:
            return
        (monomial, coefficient) = size.terms[0]
        if len(monomial) == 1 and isinstance(monomial[0], Dim):
            dim = monomial[0]
            self._equations.setdefault(dim, _Equation(dim, argument, axis, coefficient, size.constant))

    def _check_ranks(self, shapes: Sequence[tuple[int, ...]]) -> None:
        if len(shapes) != len(self.inputs):
            names = ", ".join(slot.name for slot in self.inputs)
            raise ShapeError(f"expected {len(self.inputs)} inputs ({names}), received {len(shapes)}")
        for slot, shape in zip(self.inputs, shapes, strict=True):
            if len(shape) != len(slot.shape):
                raise ShapeError(f"input {slot.name!r}: expected shape {show_shape(slot.shape)}, received {shape}")

    def _value(self, dim: Dim, shapes: Sequence[tuple[int, ...]], given: Mapping[str, int]) -> int:
        equation = self._equations.get(dim)
        if dim.name in given:
            value, where = given[dim.name], "the given sizes"
        elif equation is not None:
            slot = self.inputs[equation.argument]
            where = f"input {slot.name!r} axis {equation.axis}"
            value, rest = divmod(shapes[equation.argument][equation.axis] - equation.constant, equation.coefficient)
            if rest:
                size, actual = slot.shape[equation.axis], shapes[equation.argument][equation.axis]
                raise ShapeError(f"{where}: expected {size} for a whole {dim.name}, received {actual}")
        else:
            raise ShapeError(f"no input's shape determines dim {dim.name!r}; give it: sizes={{{dim.name!r}: …}}")
        if not dim.min <= value <= dim.max or value % dim.multiple:
            multiple = f", a multiple of {dim.multiple}" if dim.multiple != 1 else ""
            raise ShapeError(
                f"{where}: expected dim {dim.name!r} in {dim.min}..{dim.max}{multiple}, received {value}; "
                "pass another size or widen the dim"
            )
        return value
