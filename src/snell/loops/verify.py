"""The verifier of the loop IR: what must hold of a kernel before code is emitted for it.

`verify(kernel)` returns nothing, or raises a VerificationError that names the kernel, the statement and the remedy.  It
checks names and sizes, that every axis is a single position where it is used, that accumulators are initialised where
they are updated, that memory is written only where it may be, dtypes, lanes, layout blocks, and local buffers' sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NoReturn, assert_never

from snell.errors import VerificationError
from snell.loops.ir import (
    Accumulator,
    Allocate,
    Blocked,
    Buffer,
    BufferScope,
    Combine,
    Init,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Phase,
    Prefetch,
    ReadAccumulator,
    Statement,
    Store,
    Strided,
    Tee,
    Update,
    converted_factors,
)
from snell.rewrite.term import Load, Reduction, Tensor, Term, walk
from snell.symbolic import Axis, Expr, Opaque, as_expr

__all__ = ["verify"]


def verify(kernel: Kernel) -> None:
    """Raise VerificationError unless the kernel is well formed."""
    _Verifier(kernel).kernel()


@dataclass(frozen=True, slots=True)
class _Place:
    """Levels around a statement, outermost first; visible buffers; accumulators with the levels around their Init."""

    levels: tuple[Level, ...] = ()
    buffers: frozenset[Buffer] = frozenset()
    origins: tuple[tuple[Tensor, int], ...] = ()

    @property
    def vector(self) -> Axis | None:
        return next((level.axis for level in self.levels if level.kind is LoopKind.VECTOR), None)

    def size(self, axis: Axis, after: int = 0) -> int | Expr:
        """The axis's range here (or as it was inside of the first `after` levels)."""
        steps = [level for level in self.levels[: after or None] if level.axis == axis]
        if not steps:
            return axis.extent
        last = 1 if steps[-1].kind in (LoopKind.VECTOR, LoopKind.TENSOR) else steps[-1].step
        return min(last, axis.extent) if isinstance(axis.extent, int) else last


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.name = kernel.name
        self.program = kernel
        self.started: list[dict[Accumulator, tuple[Level, ...]]] = []

    def fail(self, message: str) -> NoReturn:
        raise VerificationError(f"kernel {self.name}: {message}")

    def kernel(self) -> None:
        names = [buffer.name for buffer in (*self.program.buffers, *self.program.locals())]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            self.fail(f"buffers need names of their own, received {', '.join(sorted(repeated))} more than once")
        for buffer in (*self.program.buffers, *self.program.locals()):
            self._buffer(buffer)
        for phase in self.program.phases:
            self._phase(phase)

    def _buffer(self, buffer: Buffer) -> None:
        if len(buffer.shape) != len(buffer.tensor.shape):
            self.fail(f"buffer {buffer.name} has {len(buffer.shape)} dimensions, its tensor {len(buffer.tensor.shape)}")
        if buffer.dtype.is_packed and not isinstance(buffer.layout, Strided):
            self.fail(f"packed buffer {buffer.name} needs a Strided layout, received {buffer.layout}")
        match buffer.layout:
            case Strided(_, strides) if len(strides) != len(buffer.shape):
                self.fail(f"buffer {buffer.name} needs one stride a dimension, received {len(strides)}")
            case Blocked():
                self._blocks(buffer, buffer.layout)
            case _:
                pass
        self._dims(buffer.shape, f"the shape of {buffer.name}")

    def _blocks(self, buffer: Buffer, layout: Blocked) -> None:
        outer: dict[int, int] = {}
        for block in layout.blocks:
            if not 0 <= block.dimension < len(buffer.shape) or block.size < 1:
                self.fail(f"{block} of buffer {buffer.name} is not one of its dimensions")
            whole = outer.get(block.dimension)
            if whole is not None and (block.size >= whole or whole % block.size):
                self.fail(f"block {block.size} of buffer {buffer.name} must divide the block of {whole} around it")
            outer[block.dimension] = block.size

    def _dims(self, expressions: Iterable[object], where: str) -> None:
        known = set(self.program.dims)
        for expression in expressions:
            missing = as_expr(expression).dims() - known
            if missing:
                self.fail(f"{where} uses size {min(map(str, missing))}, which is not among the kernel's dims")

    def _phase(self, phase: Phase) -> None:
        axes = [level.axis for level in phase.levels]
        if len(set(axes)) < len(axes) or any(level.kind is not LoopKind.SERIAL for level in phase.levels):
            self.fail(f"ticket levels must be serial, one an axis; received {' '.join(map(str, phase.levels))}")
        self.started = [{}]
        place = _Place((), frozenset(self.program.buffers))
        for level in phase.levels:
            place = self._enter(place, Loop(level, ()))
        self._body(phase.body, place)

    def _body(self, body: tuple[Statement, ...], place: _Place) -> None:
        for statement in body:
            match statement:
                case Loop(level):
                    inner = self._enter(place, statement)
                    if level.kind is LoopKind.SERIAL:
                        self.started.append({})
                    self._body(statement.body, inner)
                    if level.kind is LoopKind.SERIAL:
                        self.started.pop()
                case Allocate(buffers):
                    place = self._allocate(buffers, place)
                case Init() | Update():
                    self._accumulate(statement, place)
                case Store(tensor, indices, value):
                    self._term(value, place)
                    self._write(tensor, indices, value, place)
                case Prefetch(tensor, indices):
                    self._prefetch(tensor, indices, place)
                case _:
                    assert_never(statement)

    def _prefetch(self, tensor: Tensor, indices: tuple[Expr, ...], place: _Place) -> None:
        """A hint may lie outside of the tensor, but the tensor is one that is there."""
        self._place(tensor, indices, place)
        self._dims(indices, f"a prefetch of {tensor.name}")
        if place.vector is not None:
            self.fail(f"a prefetch of {tensor.name} inside of lanes; place it before the vector level")

    def _enter(self, place: _Place, loop: Loop) -> _Place:
        level = loop.level
        if level.step < 1:
            self.fail(f"level {level} needs a step of at least 1")
        inside = [outer for outer in place.levels if outer.kind is LoopKind.VECTOR]
        if level.kind is LoopKind.TENSOR:
            self._tensor_lanes(loop, place)
        if inside and (level.kind is LoopKind.VECTOR or inside[0].axis == level.axis):
            self.fail(f"level {level} lies inside of {inside[0]}; lanes run along one axis, as its last level")
        self._dims([level.axis.extent], f"level {level}")
        for bound in (loop.lower, loop.upper):
            if bound is not None:
                self._dims([bound], f"the bound of level {level}")
                for atom in bound.atoms():
                    if isinstance(atom, Opaque) and isinstance(atom.key, Term):
                        self._term(atom.key, place)
                if level.kind is not LoopKind.SERIAL:
                    self.fail(f"level {level} is not serial and cannot have bounds")
        return replace(place, levels=(*place.levels, level))

    def _tensor_lanes(self, loop: Loop, place: _Place) -> None:
        """One instruction: sums of products of two converted values, or stores, in lanes of another axis if in any."""
        for statement in loop.body:
            match statement:
                case Update(accumulator, value):
                    axes = accumulator.axes
                    if loop.level.axis in axes or (place.vector is not None and place.vector not in axes):
                        self.fail(f"{loop.level} must reduce, and lanes around it be of an axis of {accumulator.name}")
                    if accumulator.combine is not Combine.SUM or converted_factors(value) is None:
                        self.fail(f"{loop.level} needs sums of products of two converted values, received {value}")
                case Store():
                    pass
                case _:
                    self.fail(f"{loop.level} may hold updates and stores only, received {type(statement).__name__}")

    def _allocate(self, buffers: tuple[Buffer, ...], place: _Place) -> _Place:
        for buffer in buffers:
            if buffer.scope is not BufferScope.LOCAL:
                self.fail(f"buffer {buffer.name} is allocated but is {buffer.scope.value}; only local buffers are")
        origins = tuple((buffer.tensor, len(place.levels)) for buffer in buffers)
        return replace(place, buffers=place.buffers | set(buffers), origins=place.origins + origins)

    # -- accumulators

    def _accumulate(self, statement: Init | Update, place: _Place) -> None:
        accumulator, value = statement.accumulator, statement.value
        self._term(value, place, settled=isinstance(statement, Update))
        if value.dtype != accumulator.dtype:
            self.fail(f"accumulator {accumulator.name} holds {accumulator.dtype}, received {value.dtype}; cast first")
        self._settled(accumulator.axes, place, f"accumulator {accumulator.name}")
        if isinstance(statement, Init):
            vector = place.vector
            if vector is not None and vector not in accumulator.axes:
                self.fail(f"accumulator {accumulator.name} is initialised in lanes of {vector}, which it does not list")
            self.started[-1][accumulator] = _data_levels(accumulator, place)
        else:
            self._is_started(accumulator, place)

    def _is_started(self, accumulator: Accumulator, place: _Place) -> None:
        found = next((scope[accumulator] for scope in reversed(self.started) if accumulator in scope), None)
        if found is None:
            self.fail(f"accumulator {accumulator.name} is used where no Init reaches it; put one into the same body")
        here = _data_levels(accumulator, place)
        if found != here:
            self.fail(
                f"accumulator {accumulator.name} is initialised under {_show(found)} but used under {_show(here)}; "
                f"the levels of its axes must agree"
            )

    # -- terms and memory

    def _term(self, value: Term, place: _Place, *, settled: bool = True) -> None:
        for item in walk(value):
            match item.op:
                case Load(tensor, indices, guards):
                    self._read(tensor, indices, place, guarded=bool(guards))
                    self._dims((*indices, *guards), f"a load of {tensor.name}")
                case Tee(tensor, indices):
                    self._write(tensor, indices, item.args[0], place)
                case ReadAccumulator(accumulator):
                    self._settled(accumulator.axes, place, f"a read of {accumulator.name}")
                    self._is_started(accumulator, place)
                case Reduction():
                    self.fail(f"{item} is a reduction; lower it to an accumulator first")
                case _:
                    pass
        if settled:
            self._settled(value.free, place, f"the term {value}")

    def _settled(self, axes: Iterable[Axis], place: _Place, where: str) -> None:
        for axis in sorted(axes, key=str):
            size = place.size(axis)
            if size not in (0, 1):  # (without positions nothing runs)
                self.fail(f"{where} uses {axis} with a range of {size} left; add a level {axis}:1")

    def _find(self, tensor: Tensor, place: _Place) -> Buffer:
        found = next((buffer for buffer in place.buffers if buffer.tensor == tensor), None)
        if found is None:
            self.fail(f"tensor {tensor.name} has no buffer here; declare it or allocate it in an enclosing body")
        return found

    def _place(self, tensor: Tensor, indices: tuple[Expr, ...], place: _Place) -> Buffer:
        buffer = self._find(tensor, place)
        if len(indices) != len(buffer.shape):
            self.fail(f"{tensor.name} has {len(buffer.shape)} dimensions, received {len(indices)} indices")
        return buffer

    def _read(self, tensor: Tensor, indices: tuple[Expr, ...], place: _Place, *, guarded: bool = False) -> None:
        buffer = self._place(tensor, indices, place)
        if isinstance(buffer.layout, Blocked):
            self._crossing(buffer, buffer.layout, indices, place)
        if buffer.scope is BufferScope.LOCAL and not guarded:
            self._fits(buffer, indices, place)

    def _write(self, tensor: Tensor, indices: tuple[Expr, ...], value: Term, place: _Place) -> None:
        self._read(tensor, indices, place)
        self._dims(indices, f"a store to {tensor.name}")
        buffer = self._find(tensor, place)
        if buffer.scope is BufferScope.PARAMETER and not buffer.writable:
            self.fail(f"buffer {tensor.name} is stored to but is not writable")
        if value.dtype != tensor.dtype:
            self.fail(f"{tensor.name} holds {tensor.dtype}, received {value.dtype}; cast first")
        used = {axis for index in indices for axis in index.axes()}
        self._settled(used, place, f"a store to {tensor.name}")
        vector = place.vector
        if vector is not None and vector.extent != 1 and vector not in used:
            self.fail(
                f"a store to {tensor.name} in lanes of {vector} has one place for all lanes; vectorise another axis"
            )

    def _crossing(self, buffer: Buffer, layout: Blocked, indices: tuple[Expr, ...], place: _Place) -> None:
        """Every level of an axis that indexes a blocked dimension must tile its blocks, or be tiled by them."""
        for block in layout.blocks:
            for axis in indices[block.dimension].axes():
                if indices[block.dimension].coefficient(axis) != 1:
                    continue
                for level in place.levels:
                    if level.axis == axis and level.step % block.size and block.size % level.step:
                        self.fail(f"level {level} crosses the blocks of {block.size} of {buffer.name}")

    def _fits(self, buffer: Buffer, indices: tuple[Expr, ...], place: _Place) -> None:
        """An affine index of a local buffer stays inside of it, counted from where it was allocated."""
        start = next(count for tensor, count in place.origins if tensor == buffer.tensor)
        for index, size in zip(indices, buffer.shape, strict=True):
            low, high = index.constant, index.constant
            for axis in index.axes():
                spread = place.size(axis, start) if start else axis.extent
                if not isinstance(spread, int) or spread == 0 or not index.is_affine_in(axis):
                    return  # (unknown, or nothing runs)
                k = index.coefficient(axis)
                low, high = low + min(0, k * (spread - 1)), high + max(0, k * (spread - 1))
            if index.dims() or not isinstance(size, int):
                return
            if low < 0 or high >= size:
                self.fail(f"local buffer {buffer.name} has {size} positions, index {index} runs over {low}..{high}")


def _data_levels(accumulator: Accumulator, place: _Place) -> tuple[Level, ...]:
    return tuple(level for level in place.levels if level.axis in accumulator.axes)


def _show(levels: tuple[Level, ...]) -> str:
    return " ".join(map(str, levels)) or "no level"
