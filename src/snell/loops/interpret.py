"""The reference interpreter of the loop IR: slow, in NumPy, and faithful to the level structure.

Every level runs over the range the level around it left, so a schedule that skips, repeats or misplaces a position
gives a wrong answer here too.  Floats are float64 and rounded at casts and in memory; an access outside of a buffer, an
accumulator that is not initialised, and an axis used before its range is a single position are errors.
Chains of loops around one statement are evaluated for all positions at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, assert_never

import numpy as np

from snell.errors import VerificationError
from snell.graph.numeric import Array, constant, converted, narrowed, widened, zero
from snell.graph.philox import philox_words
from snell.graph.primitives import Binary, Mul, Op, Random, ScalarFunction, Unary
from snell.graph.scalar_functions import scalar_function
from snell.loops.ir import (
    Accumulator,
    Allocate,
    Blocked,
    Buffer,
    BufferScope,
    Combine,
    Dense,
    Init,
    Kernel,
    Loop,
    LoopKind,
    Prefetch,
    ReadAccumulator,
    Statement,
    Store,
    Strided,
    Tee,
    Update,
)
from snell.rewrite.term import (
    And,
    Cast,
    Divide,
    Equal,
    FloorDivide,
    Index,
    Load,
    Maximum,
    Not,
    Number,
    Select,
    SelectElse,
    Subtract,
    Tensor,
    Term,
    walk,
)
from snell.symbolic import Axis, Dim, Expr, Opaque, as_expr

__all__ = ["interpret", "offset_of"]

Values = dict[Any, Any]


def interpret(kernel: Kernel, arrays: Mapping[str, Array], sizes: Mapping[Dim, int] | None = None) -> None:
    """Run every phase, writing to `arrays` (by buffer name: raw storage, as the emitted code would receive it)."""
    state = _State(dict(sizes or {}))
    for buffer in kernel.buffers:
        state.bind(buffer, arrays[buffer.name].reshape(-1), {})
    for phase in kernel.phases:
        body: tuple[Statement, ...] = phase.body
        for level in reversed(phase.levels):
            body = (Loop(level, body),)
        state.accumulators.clear()
        _run(body, _Place(state, {}), state)


@dataclass(slots=True)
class _State:
    """Storage by tensor, origins of local buffers, accumulators by data position."""

    sizes: dict[Dim, int]
    buffers: dict[Tensor, Buffer] = field(default_factory=dict[Tensor, Buffer])
    storage: dict[Tensor, Array] = field(default_factory=dict[Tensor, Array])
    origins: dict[Tensor, dict[Axis, int]] = field(default_factory=dict[Tensor, dict[Axis, int]])
    accumulators: dict[tuple[Accumulator, tuple[int, ...]], Any] = field(default_factory=dict[Any, Any])

    def bind(self, buffer: Buffer, storage: Array, origin: dict[Axis, int]) -> None:
        self.buffers[buffer.tensor], self.storage[buffer.tensor] = buffer, storage
        self.origins[buffer.tensor] = origin


class _Place:
    """Start and size of each axis's current range."""

    def __init__(self, state: _State, ranges: dict[Axis, tuple[int, int]]) -> None:
        self.state = state
        self.ranges = ranges

    def range(self, axis: Axis) -> tuple[int, int]:
        found = self.ranges.get(axis)
        return found if found is not None else (0, int(as_expr(axis.extent).evaluate(self.state.sizes)))

    def within(self, axis: Axis, start: int, size: int) -> _Place:
        return _Place(self.state, {**self.ranges, axis: (start, size)})

    def starts(self) -> Values:
        """Every axis at the start of its range: what bounds and origins are evaluated with."""
        return {**self.state.sizes, **{axis: start for axis, (start, _) in self.ranges.items()}}


def _run(body: tuple[Statement, ...], place: _Place, state: _State) -> None:
    for statement in body:
        _statement(statement, place, state)


def _statement(statement: Statement, place: _Place, state: _State) -> None:
    leaf = _lone_leaf(statement)
    if leaf is not None and _is_parallel(leaf):
        _at_once(leaf, list(_positions(statement, place)), state)
        return
    match statement:
        case Loop():
            for inner in _steps(statement, place):
                _run(statement.body, inner, state)
        case Allocate(buffers):
            for buffer in buffers:
                _allocate(buffer, place, state)
        case Init() | Update() | Store():
            _at_once(statement, [place], state)
        case Prefetch():
            pass
        case _:
            assert_never(statement)


def _steps(loop: Loop, place: _Place) -> Iterator[_Place]:
    level = loop.level
    start, size = place.range(level.axis)
    starts = place.starts()
    starts.setdefault(level.axis, start)
    bounds = _Evaluator(starts, place.state)
    active = np.ones((), bool)
    lower = None if loop.lower is None else int(bounds.integer(loop.lower, active))
    upper = None if loop.upper is None else int(bounds.integer(loop.upper, active))
    step = 1 if level.kind in (LoopKind.VECTOR, LoopKind.TENSOR) else level.step
    begin = 0 if lower is None else max(0, (lower - start) // step * step)
    end = size if upper is None else min(size, upper - start)
    for offset in range(begin, end, step):
        first, count = start + offset, min(step, size - offset)
        if (lower is not None and first + count <= lower) or (upper is not None and first >= upper):
            continue
        yield place.within(level.axis, first, count)


def _lone_leaf(statement: Statement) -> Statement | None:
    while isinstance(statement, Loop) and len(statement.body) == 1:
        statement = statement.body[0]
    return None if isinstance(statement, Loop | Allocate | Prefetch) else statement


def _is_parallel(leaf: Statement) -> bool:
    """Its positions do not see each other: nothing it reads is written by it."""
    assert isinstance(leaf, Init | Update | Store)
    written = {item.op.tensor for item in walk(leaf.value) if isinstance(item.op, Tee)}
    if isinstance(leaf, Store):
        written.add(leaf.tensor)
    read = {item.op.tensor for item in walk(leaf.value) if isinstance(item.op, Load)}
    return not written & read


def _positions(statement: Statement, place: _Place) -> Iterator[_Place]:
    if not isinstance(statement, Loop):
        yield place
        return
    for inner in _steps(statement, place):
        yield from _positions(statement.body[0], inner)


def _allocate(buffer: Buffer, place: _Place, state: _State) -> None:
    shape = [int(as_expr(size).evaluate(state.sizes)) for size in buffer.shape]
    storage = np.full(_elements(buffer, shape), _poison(buffer), buffer.dtype.numpy)
    state.bind(buffer, storage, {axis: start for axis, (start, _) in place.ranges.items()})


def _poison(buffer: Buffer) -> Any:
    """What fresh local memory holds: something that shows."""
    return np.nan if buffer.dtype.is_float else 1 if buffer.dtype.kind == "bool" else 77


def _at_once(leaf: Statement, places: list[_Place], state: _State) -> None:
    """One statement at many positions; the arrays of axis values are built from the places' ranges."""
    if not places:
        return
    assert isinstance(leaf, Init | Update | Store)
    axes = _used_axes(leaf)
    env: Values = dict(state.sizes)
    # What an accumulator continues from may depend on where the range of a reduced axis begins.
    loose = axes.difference(leaf.accumulator.axes) if isinstance(leaf, Init) else frozenset[Axis]()
    for axis in sorted(axes, key=str):
        ranges = [place.range(axis) for place in places]
        if axis not in loose and any(size != 1 for _, size in ranges):
            raise VerificationError(f"axis {axis} has {ranges[0][1]} positions left at a statement that uses it")
        env[axis] = np.array([start for start, _ in ranges], np.int64)
    count = len(places)
    everywhere = np.ones(count, bool)
    value = np.broadcast_to(_evaluate(leaf.value, env, everywhere, state), (count,))
    match leaf:
        case Init(accumulator):
            for key, element in zip(_keys(accumulator, env, count), value, strict=True):
                state.accumulators[accumulator, key] = element
        case Update(accumulator):
            _accumulate(accumulator, env, value, state)
        case Store(tensor, indices):
            _write(tensor, indices, env, value, state)
        case _:
            assert_never(leaf)


def _used_axes(leaf: Init | Update | Store) -> frozenset[Axis]:
    found = set(leaf.value.free)
    if isinstance(leaf, Store):
        found |= {axis for index in leaf.indices for axis in index.axes()}
    else:
        found |= set(leaf.accumulator.axes)
    for item in walk(leaf.value):
        match item.op:
            case Tee(_, indices):
                found |= {axis for index in indices for axis in index.axes()}
            case ReadAccumulator(accumulator):
                found |= set(accumulator.axes)
            case _:
                pass
    return frozenset(found)


def _keys(accumulator: Accumulator, env: Values, count: int) -> list[tuple[int, ...]]:
    columns = [np.broadcast_to(env[axis], (count,)).tolist() for axis in accumulator.axes]
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _accumulate(accumulator: Accumulator, env: Values, value: Array, state: _State) -> None:
    keys = _keys(accumulator, env, len(value))
    order = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    places = np.array([order[key] for key in keys])
    totals = np.array([_current(accumulator, key, state) for key in order])
    with np.errstate(all="ignore"):
        if accumulator.combine is Combine.SUM:
            np.add.at(totals, places, value)
        else:
            np.maximum.at(totals, places, value)
    for key, k in order.items():
        state.accumulators[accumulator, key] = totals[k]


def _current(accumulator: Accumulator, key: tuple[int, ...], state: _State) -> Any:
    found = state.accumulators.get((accumulator, key))
    if found is None:
        raise VerificationError(f"accumulator {accumulator.name} is used at {key} before an Init there")
    return found


# -- terms


def _evaluate(item: Term, env: Values, active: Array, state: _State) -> Array:
    with np.errstate(all="ignore"):
        return _Evaluator(env, state).value(item, active)


class _Evaluator:
    """Values of terms at the positions of one statement; `active` masks where a value is used at all."""

    def __init__(self, env: Values, state: _State) -> None:
        self.env = env
        self.state = state
        self.known: dict[tuple[Term, int], tuple[Array, Array]] = {}

    def value(self, item: Term, active: Array) -> Array:
        # The mask is kept beside the value: an id must not be used again while it is a key.
        key = (item, id(active))
        if key not in self.known:
            self.known[key] = self._compute(item, active), active
        return self.known[key][0]

    def _compute(self, item: Term, active: Array) -> Array:
        match item.op:
            case Number(value):
                return constant(value, item.dtype)
            case Index(expression):
                return np.asarray(self.integer(expression, active), np.int64)
            case Load():
                return self._load(item, active)
            case Select() | SelectElse():
                return self._select(item, active)
            case ReadAccumulator(accumulator):
                keys = _keys(accumulator, self.env, len(active))
                return np.array([_current(accumulator, key, self.state) for key in keys])
            case Tee(tensor, indices):
                value = np.broadcast_to(self.value(item.args[0], active), active.shape)
                _write(tensor, indices, self.env, value, self.state)
                return value
            case Cast():
                return converted(self.value(item.args[0], active), item.args[0].dtype, item.dtype)
            case _:
                return _operation(item.op, [self.value(argument, active) for argument in item.args])

    def integer(self, expression: Expr, active: Array) -> Any:
        atoms = {a: a.key for a in expression.atoms() if isinstance(a, Opaque)}
        loaded = {a: self.value(key, active).astype(np.int64) for a, key in atoms.items() if isinstance(key, Term)}
        return expression.evaluate({**self.env, **loaded})

    def _load(self, item: Term, active: Array) -> Array:
        assert isinstance(item.op, Load)
        tensor = item.op.tensor
        allowed = active.copy()
        for guard in item.op.guards:
            allowed &= np.asarray(self.integer(guard, active)) >= 0
        indices = [np.broadcast_to(self._relative(tensor, index, active), active.shape) for index in item.op.indices]
        buffer = _buffer(tensor, self.state)
        offsets = _checked_offset(buffer, [np.where(allowed, i, 0) for i in indices], allowed, self.state)
        raw = _fetch(buffer, self.state.storage[tensor], offsets)
        return np.where(allowed, widened(raw, buffer.dtype), zero(buffer.dtype))

    def _relative(self, tensor: Tensor, index: Expr, active: Array) -> Any:
        origin = self.state.origins.get(tensor, {})
        if not origin:
            return self.integer(index, active)
        shifted = _Evaluator(_shifted(self.env, origin), self.state)
        return shifted.integer(index, active)

    def _select(self, item: Term, active: Array) -> Array:
        condition = np.broadcast_to(self.value(item.args[0], active), active.shape)
        chosen = self.value(item.args[1], active & condition)
        other = self.value(item.args[2], active & ~condition) if len(item.args) == 3 else zero(item.dtype)
        return np.where(condition, chosen, other)


def _operation(op: Op, arguments: list[Array]) -> Array:
    match op:
        case Unary():
            return op.evaluate(arguments[0])
        case ScalarFunction(name):
            return scalar_function(name).evaluate(arguments[0])
        case Mul() | Binary():
            return np.asarray(op.evaluate(*arguments))
        case Random():
            first, second, position = np.broadcast_arrays(*arguments)
            return philox_words((int(first.flat[0]), int(second.flat[0])), position)
        case _:
            return np.asarray(_IDIOMS[type(op)](*arguments))


def _floor_divide(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.zeros((), a.dtype), np.floor_divide(a, np.where(b == 0, np.ones((), b.dtype), b)))


_IDIOMS: dict[type[Op], Callable[..., Any]] = {
    Subtract: np.subtract,
    Divide: np.divide,
    FloorDivide: _floor_divide,
    Maximum: np.maximum,
    Equal: np.equal,
    Not: np.logical_not,
    And: np.logical_and,
}


# -- memory


def _buffer(tensor: Tensor, state: _State) -> Buffer:
    found = state.buffers.get(tensor)
    if found is None:
        raise VerificationError(f"tensor {tensor.name} has no buffer here")
    return found


def _shifted(env: Values, origin: dict[Axis, int]) -> Values:
    return {key: value - origin[key] if key in origin else value for key, value in env.items()}


def _write(tensor: Tensor, indices: tuple[Expr, ...], env: Values, value: Array, state: _State) -> None:
    buffer = _buffer(tensor, state)
    if not buffer.writable and buffer.scope is BufferScope.PARAMETER:
        raise VerificationError(f"buffer {buffer.name} is stored to but is not writable")
    everywhere = np.ones(len(value), bool)
    evaluator = _Evaluator(_shifted(env, state.origins.get(tensor, {})), state)
    found = [np.broadcast_to(evaluator.integer(index, everywhere), value.shape) for index in indices]
    offsets = _checked_offset(buffer, found, everywhere, state)
    state.storage[tensor][offsets] = narrowed(value, buffer.dtype)


def _checked_offset(buffer: Buffer, indices: list[Array], active: Array, state: _State) -> Array:
    shape = [int(as_expr(size).evaluate(state.sizes)) for size in buffer.shape]
    for index, size in zip(indices, shape, strict=True):
        if ((index < 0) | (index >= size))[active].any():
            raise VerificationError(f"an index of {buffer.name} leaves 0..{size - 1}: {index[active]}")
    places = [np.clip(i, 0, max(0, n - 1)) for i, n in zip(indices, shape, strict=True)]
    return np.broadcast_to(offset_of(buffer, places, shape), active.shape)  # (a scalar has no index to broadcast)


def offset_of(buffer: Buffer, indices: list[Array], shape: list[int]) -> Array:
    """Element offset in the buffer's storage; for a Strided layout the bit offset."""
    match buffer.layout:
        case Dense():
            strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
            return np.asarray(sum(i * s for i, s in zip(indices, strides, strict=True)), np.int64)
        case Strided(offset, strides):
            return np.asarray(8 * offset + sum(i * s for i, s in zip(indices, strides, strict=True)), np.int64)
        case Blocked(blocks):
            total: Any = 0
            stride = 1
            for k in range(len(blocks) - 1, -1, -1):
                block = blocks[k]
                outer = [b.size for b in blocks[:k] if b.dimension == block.dimension]
                whole = min(outer) if outer else shape[block.dimension]
                digit = indices[block.dimension] % outer[-1] if outer else indices[block.dimension]
                total = total + digit // block.size * stride
                stride *= -(-whole // block.size)
            return np.asarray(total, np.int64)


def _elements(buffer: Buffer, shape: list[int]) -> int:
    if not isinstance(buffer.layout, Blocked):
        return prod(shape)
    last = [np.array(n - 1) for n in _padded(buffer.layout, shape)]
    return int(offset_of(buffer, last, shape)) + 1


def _padded(layout: Blocked, shape: list[int]) -> list[int]:
    sizes = list(shape)
    for dimension in range(len(shape)):
        for block in reversed([b for b in layout.blocks if b.dimension == dimension]):
            sizes[dimension] = -(-sizes[dimension] // block.size) * block.size
    return sizes


def _fetch(buffer: Buffer, storage: Array, offsets: Array) -> Array:
    if not isinstance(buffer.layout, Strided):
        return storage[offsets]
    raw = storage.view(np.uint8)
    if buffer.dtype.is_packed:
        return (raw[offsets >> 3] >> (offsets & 7).astype(np.uint8)) & np.uint8((1 << buffer.dtype.bits) - 1)
    size = buffer.dtype.itemsize
    parts = raw[(offsets >> 3)[..., None] + np.arange(size)]
    return np.ascontiguousarray(parts).view(buffer.dtype.numpy)[..., 0]
