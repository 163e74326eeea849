"""Statements and loop levels: main loops, tails, run-time extents, bounds, tickets.

A serial level that has another serial level of its axis inside is a blocking level: one body whose last range is known
at run time.  The innermost serial level of an axis is a main loop over whole steps and then the rest.  A range that is
still unknown when an unrolled level of its axis comes next is resolved: one branch for each value it can take, or
tiles of halving size.  Vector levels mask what is outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from snell.codegen.assembler import Value
from snell.codegen.control import Body, ControlFlow
from snell.codegen.expressions import Expressions
from snell.codegen.instructions import Scalar
from snell.codegen.layout import scratch_bytes
from snell.codegen.linear import Fact, Linear
from snell.codegen.position import Dynamic, Extent, Position
from snell.codegen.ranges import extent_text, maximum, range_at, tile_count, whole_steps
from snell.codegen.structure import Structure
from snell.codegen.tensor import Group, TensorLanes
from snell.errors import CompileError
from snell.loops.ir import Allocate, Combine, Init, Loop, LoopKind, Phase, Prefetch, Statement, Store, Update
from snell.symbolic import Axis, Expr, as_expr

__all__ = ["Nest"]


class Nest:
    """Emits one phase into the open function."""

    def __init__(self, expressions: Expressions, scratch: str) -> None:
        self.expressions = expressions
        self.code = expressions.code
        self.positions = expressions.positions
        self.control = ControlFlow(self.code, expressions.accumulators)
        self.structure = Structure()
        self.tensor = TensorLanes(expressions)
        self.scratch = as_expr(0)
        self._scratch_pointer = scratch

    # -- tickets

    def phase(self, phase: Phase, begin: str, end: str) -> None:
        """A loop over the tickets begin..end, each decoded into the phase's levels, the last one fastest."""
        self.control.guarded_loop(begin, end, 1, lambda ticket: self._ticket(phase, ticket, len(phase.levels) - 1))

    def _ticket(self, phase: Phase, ticket: Scalar, last: int) -> None:
        if last < 0:
            self.block(phase.body)
            return
        level = phase.levels[last]
        position = self.positions.at[level.axis]
        extent = position.extent
        count = tile_count(self.code, extent, level.step)
        emit = self.code.scopes.emit_limited
        here, rest = ticket, 0
        if last:
            here = emit(f"urem i64 {ticket}, {count}", 0, ticket, count, memory=True)
            rest = emit(f"udiv i64 {ticket}, {count}", 0, ticket, count, memory=True)
        start = self.code.integer("mul", here, level.step)
        self._know(start, level.step, maximum(extent) - 1)
        moved = self.positions.moved(position, range_at(self.code, extent, level.step, start), term=str(start))
        self._at(level.axis, moved, lambda: self._ticket(phase, rest, last - 1))

    # -- statements

    def block(self, body: tuple[Statement, ...]) -> None:
        """Statements in order; a range that an initialised accumulator needs known is resolved around all of them."""
        for axis in self.structure.shared_axes(body):
            if axis in self.positions.at and self._needs_resolving(axis, self.structure.first_kinds(body, axis)):
                self._resolve(axis, lambda: self.block(body))
                return
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Loop():
                self._loop(statement)
            case Allocate():
                self._allocate(statement)
            case Init(accumulator, value):
                self.expressions.accumulators.start(accumulator, self.expressions.statement_value(value))
            case Update():
                self._update(statement)
            case Store(tensor, indices, value):
                self.expressions.memory.store(tensor, indices, self.expressions.statement_value(value))
            case Prefetch(tensor, indices):
                self.expressions.memory.prefetch(tensor, indices)
            case _:
                assert_never(statement)

    def _allocate(self, statement: Allocate) -> None:
        for buffer in statement.buffers:
            memory = self.expressions.memory
            pointer = memory.pointers.get(buffer.tensor)
            if pointer is None:
                offset = self.expressions.indexing.scalar(self.expressions.indexing.linear(self.scratch))
                base = self._scratch_pointer
                pointer = self.code.scopes.emit(f"getelementptr i8, ptr {base}, i64 {offset}", base, offset)
                self.scratch = self.scratch + scratch_bytes(buffer)
            memory.bind(buffer, pointer, dict(self.positions.at))

    def _update(self, statement: Update) -> None:
        accumulators, code = self.expressions.accumulators, self.code
        accumulator = statement.accumulator
        slot = accumulators.slot(accumulator)
        old = accumulators.current(accumulator, slot)
        new = self._combined(statement, old)
        reduced = slot[1][:1] == ("lanes",)
        mask = self.expressions.predicates.lane_mask() if reduced else None
        if mask is not None:
            new = code.select(mask, *code.join(code.splat(new, mask.lanes), old))
        if new.lanes < slot[0]:
            new = code.splat(new, slot[0])
        if new.lanes > slot[0]:
            raise CompileError(
                f"lanes of {self.positions.vector} reach {accumulator.name}, which does not list that axis"
            )
        accumulators.update(accumulator, new, slot)

    def _combined(self, statement: Update, old: Value) -> Value:
        expressions = self.expressions
        if statement.accumulator.combine is Combine.SUM:
            factors = expressions.fused_update(statement.value)
            if factors is not None:
                return self.code.fma(*self.code.join(*factors, old))
        return expressions.accumulators.combine(
            statement.accumulator, expressions.statement_value(statement.value), old
        )

    # -- levels

    def _loop(self, loop: Loop) -> None:
        level = loop.level
        position = self.positions.at.get(level.axis)
        if position is None:
            raise CompileError(f"level {level} advances {level.axis}, which no expression of the kernel mentions")
        if level.kind is LoopKind.SERIAL:
            self._serial(loop, position)
        elif self._needs_resolving(level.axis, frozenset((level.kind,))):
            self._resolve(level.axis, lambda: self._loop(loop))
        elif level.kind is LoopKind.UNROLLED:
            self._unrolled(loop, position)
        elif level.kind is LoopKind.TENSOR:
            self._tensor(loop, position)
        else:
            self._vector(loop, position)

    def _unrolled(self, loop: Loop, position: Position) -> None:
        level, extent = loop.level, position.extent
        assert isinstance(extent, int)
        for offset in range(0, extent, level.step):
            inner = self.positions.unrolled(position, offset, min(level.step, extent - offset))
            self._at(level.axis, inner, lambda: self.block(loop.body))

    def _tensor(self, loop: Loop, position: Position) -> None:
        level, extent = loop.level, position.extent
        assert isinstance(extent, int)
        for offset in range(0, extent, level.step):
            count = min(level.step, extent - offset)
            places = [self.positions.unrolled(position, offset + k, 1) for k in range(count)]
            group = Group(level.axis, tuple(places), level.step)
            for statement in loop.body:
                if isinstance(statement, Update):
                    self._at(level.axis, places[0], lambda s=statement, g=group: self.tensor.update(s, g))
                elif isinstance(statement, Store):
                    self._at(level.axis, places[0], lambda s=statement, g=group: self.tensor.store(s, g))
                else:
                    raise CompileError(f"level {level} may hold updates and stores only, received {statement}")

    def _vector(self, loop: Loop, position: Position) -> None:
        level, extent = loop.level, position.extent
        if self.positions.vector is not None:
            raise CompileError(
                f"level {level} lies inside of the vector level of {self.positions.vector}; one at a time"
            )
        for offset in range(0, maximum(extent), level.step):
            if isinstance(extent, int) and extent - offset == 1:
                # A single position is a scalar: an axis of extent 1 does not occur in index expressions.
                inner = self.positions.unrolled(position, offset, 1)
                self._at(level.axis, inner, lambda: self.block(loop.body))
                continue
            mask = self._lane_mask(extent, offset, level.step)
            inner = self.positions.vectorised(position, offset, level.step, mask)
            self.positions.vector = level.axis
            self._at(level.axis, inner, lambda: self.block(loop.body))
            self.positions.vector = None

    def _lane_mask(self, extent: Extent, offset: int, lanes: int) -> int | str | None:
        if isinstance(extent, int):
            return extent - offset if extent - offset < lanes else None
        left = self.code.integer("sub", extent.text, offset)
        return self.expressions.predicates.below(left, lanes).text

    def _serial(self, loop: Loop, position: Position) -> None:
        level, extent = loop.level, position.extent
        bounds = self._bounds(loop)
        if maximum(extent) <= level.step:
            inner = self.positions.moved(position, extent)
            body = lambda: self._at(level.axis, inner, lambda: self.block(loop.body))  # noqa: E731
            inside = lambda: self.control.when_below(0, bounds[1], body)  # noqa: E731
            if isinstance(bounds[0], int):
                if bounds[0] == 0:
                    inside()
            else:
                self.control.when("eq", bounds[0], 0, inside)
        elif self.structure.has_serial(loop.body, level.axis):
            self._blocking(loop, position, bounds)
        else:
            self._innermost(loop, position, bounds)

    def _blocking(self, loop: Loop, position: Position, bounds: tuple[Scalar, Scalar | None]) -> None:
        level, extent = loop.level, position.extent

        def body(start: Scalar) -> None:
            self._iteration(loop, position, start, range_at(self.code, extent, level.step, start))

        self._steps(loop, extent, extent_text(extent), bounds, body)

    def _innermost(self, loop: Loop, position: Position, bounds: tuple[Scalar, Scalar | None]) -> None:
        level, extent = loop.level, position.extent
        full, rest = whole_steps(self.code, extent, level.step)
        self._steps(loop, extent, full, bounds, lambda start: self._iteration(loop, position, start, level.step))
        if rest == 0:
            return

        def tail() -> None:
            self._iteration(loop, position, full, rest)

        if isinstance(rest, Dynamic):
            self.control.when_below(full, bounds[1], lambda: self.control.when("sgt", rest.text, 0, tail))
        elif isinstance(extent, Dynamic):
            left = self.code.integer("sub", extent.text, full)
            self.control.when_below(full, bounds[1], lambda: self.control.when("sgt", left, 0, tail))
        else:
            self.control.when_below(full, bounds[1], tail)

    def _iteration(self, loop: Loop, position: Position, start: Scalar, extent: Extent) -> None:
        axis = loop.level.axis
        if isinstance(start, int):
            inner = self.positions.moved(position, extent, constant=start)
        else:
            self._know(start, loop.level.step, maximum(position.extent) - 1)
            inner = self.positions.moved(position, extent, term=start)
        self._at(axis, inner, lambda: self.block(loop.body))

    def _steps(
        self,
        loop: Loop,
        extent: Extent,
        stop: Scalar,
        bounds: tuple[Scalar, Scalar | None],
        body: Callable[[Scalar], None],
    ) -> None:
        """Whole steps from the lower bound to the upper one or `stop`."""
        lower, upper = bounds
        step = loop.level.step
        if isinstance(stop, int) and stop <= 0:
            return
        if upper is None and lower == 0 and isinstance(stop, int):
            if stop <= step:
                body(0)
            else:
                self.control.loop(0, stop, step, body)
            return
        end = stop if upper is None else self.code.clamp("smin", stop, upper)
        assumptions = self._assumptions(loop)
        self.expressions.predicates.assumed += assumptions
        full = isinstance(extent, Dynamic) and extent.candidates and min(extent.candidates) >= step
        if upper is None and lower == 0 and full:
            self.control.loop(0, end, step, body)
        else:
            self.control.guarded_loop(lower, end, step, body)
        del self.expressions.predicates.assumed[len(self.expressions.predicates.assumed) - len(assumptions) :]

    def _bounds(self, loop: Loop) -> tuple[Scalar, Scalar | None]:
        """Lower bound rounded down to a step, and upper bound, both relative to the range's start."""
        axis, step = loop.level.axis, loop.level.step
        lower: Scalar = 0
        if loop.lower is not None:
            lower = self.code.clamp("smax", self._relative(loop.lower, axis), 0)
            if isinstance(lower, int):
                lower = lower // step * step
            elif step > 1:
                count = self.code.scopes.emit(f"udiv i64 {lower}, {step}", lower)
                lower = self.code.integer("mul", count, step)
        return lower, None if loop.upper is None else self._relative(loop.upper, axis)

    def _relative(self, bound: Expr, axis: Axis) -> Scalar:
        indexing = self.expressions.indexing
        form = indexing.add(indexing.linear(bound), indexing.scale(indexing.base(axis), -1))
        return indexing.scalar(Linear(form.constant, {name: k for name, k in form.terms.items() if k}))

    def _assumptions(self, loop: Loop) -> list[Expr]:
        """Guards that the bounds of a step-1 level guarantee: other axes in them must have no range left."""
        if loop.level.step != 1:
            return []
        axis = as_expr(loop.level.axis)
        guards = [axis - loop.lower] if loop.lower is not None else []
        guards += [loop.upper - axis - 1] if loop.upper is not None else []
        return [guard for guard in guards if self._is_settled(guard, loop.level.axis)]

    def _is_settled(self, guard: Expr, moving: Axis) -> bool:
        at = self.positions.at
        return all(axis == moving or (at[axis].extent == 1 and not at[axis].lanes) for axis in guard.axes())

    # -- ranges known at run time

    def _needs_resolving(self, axis: Axis, kinds: frozenset[LoopKind]) -> bool:
        extent = self.positions.at[axis].extent
        if not isinstance(extent, Dynamic):
            return False
        few = bool(extent.candidates) or extent.full
        return bool(kinds & {LoopKind.UNROLLED, LoopKind.TENSOR}) or (LoopKind.VECTOR in kinds and few)

    def _resolve(self, axis: Axis, body: Body) -> None:
        """Run the body once with a known range: each candidate, or the full range and then smaller tiles."""
        position = self.positions.at[axis]
        extent = position.extent
        assert isinstance(extent, Dynamic)
        if extent.candidates:
            for candidate in extent.candidates:
                narrowed = self.positions.narrowed(position, candidate)
                self.control.when("eq", extent.text, candidate, lambda p=narrowed: self._at(axis, p, body))
            return
        if extent.full:
            whole = self.positions.narrowed(position, extent.maximum)
            self.control.when("eq", extent.text, extent.maximum, lambda: self._at(axis, whole, body))
            part = Dynamic(extent.text, extent.maximum - 1, multiple=extent.multiple)
            inner = self.positions.narrowed(position, part)
            self.control.when("slt", extent.text, extent.maximum, lambda: self._at(axis, inner, body))
            return
        self._halving(axis, position, extent, body)

    def _halving(self, axis: Axis, position: Position, extent: Dynamic, body: Body) -> None:
        """Tiles of 2ⁿ, …, 4, 2, 1 that make up the range."""
        if extent.maximum < 1:
            return
        if extent.maximum > 64:
            raise CompileError(
                f"an unrolled level of {axis} needs a serial level around it: its range is up to {extent.maximum}"
            )
        done = 0
        bit = 1 << (extent.maximum.bit_length() - 1)
        while bit >= 1:
            if bit % extent.multiple == 0:
                self._tile(axis, position, extent, bit, done, body)
            done, bit = done | bit, bit >> 1

    def _tile(self, axis: Axis, position: Position, extent: Dynamic, size: int, done: int, body: Body) -> None:
        emit = self.code.scopes.emit
        present = emit(f"and i64 {extent.text}, {size}", extent.text)
        term = None
        if done:
            term = emit(f"and i64 {extent.text}, {done}", extent.text)
            self._know(term, 2 * size, done)
        inner = self.positions.moved(position, size, term=term)
        self.control.when("ne", present, 0, lambda: self._at(axis, inner, body))

    # -- control flow

    def _at(self, axis: Axis, position: Position, body: Body) -> None:
        outer = self.positions.at[axis]
        self.positions.at[axis] = position
        body()
        self.positions.at[axis] = outer

    def _know(self, name: Scalar, multiple: int, high: int) -> None:
        if isinstance(name, str):
            self.expressions.indexing.facts.setdefault(name, Fact(multiple, 0, max(0, high // multiple * multiple)))
