"""A program that can run: loaded code, frozen inputs, and one foreign call per execution.

Takes NumPy arrays (or whatever `np.asarray` takes without a copy) and returns new ones.  Calls are safe from several
threads at a time: each takes a frame (arena, scratch, pointer table) from a free list and puts it back.
"""

from __future__ import annotations

import bisect
import ctypes
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell.codegen.host import host_target
from snell.codegen.loading import load
from snell.errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from snell.runtime.arena import ALIGNMENT
from snell.runtime.buffers import Array, address, aligned_empty, is_usable
from snell.runtime.main import ENTER, TABLE, checks_before_writes, scratch_sizes, with_main
from snell.runtime.pool import Pool, process_pool
from snell.runtime.program import BufferSlot, Program, Role
from snell.runtime.sizes import SizeSolver
from snell.symbolic import Dim, Shape, show_shape

__all__ = ["Bound", "Executable", "Layout"]

_ENTER_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_LAYOUTS_KEPT = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """What a call needs at given sizes; `outputs` are (shape, dtype, bytes)."""

    sizes: Any
    sizes_address: int
    values: Mapping[Dim, int]
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...]
    arena_bytes: int
    scratch_bytes: int


class _Frame:
    """The memory of one call in progress: the operands of `enter` and what they point to.

    `pointers` has the frozen inputs' addresses filled in.  `apart` are the places of donated inputs
    that share no memory with anything, `spans` the same in order.
    """

    __slots__ = ("apart", "arena", "capacity", "entry", "layout", "memory", "operands", "pointers", "spans", "threads")

    def __init__(self, pointers: Any) -> None:
        self.pointers = pointers
        self.operands = (ctypes.c_void_p * 4)(ctypes.addressof(pointers))
        self.entry = ctypes.addressof(self.operands)
        self.memory: Array = np.empty(0, np.uint8)
        self.arena = self.capacity = self.threads = 0
        self.layout: Layout | None = None
        self.apart: tuple[tuple[int, int], ...] = ()
        self.spans: list[tuple[int, int]] = []

    def reserve(self, size: int) -> None:
        """Grow to hold `size` bytes; contents are lost."""
        self.memory, self.arena = aligned_empty((size,), np.dtype(np.uint8), size)
        self.capacity = size


def _evaluated(shape: Shape, values: Mapping[Dim, int]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else int(size.evaluate(values)) for size in shape)


class Bound:
    """A call with fixed arrays: `bound()` runs it again on their current contents and returns the outputs."""

    __slots__ = ("_enter", "_entry", "_executable", "_frame", "_keep", "_layout", "outputs")

    def __init__(
        self, executable: Executable, frame: _Frame, layout: Layout, keep: list[Array], outputs: tuple[Array, ...]
    ) -> None:
        self._executable, self._frame, self._layout, self._keep = executable, frame, layout, keep
        self._enter, self._entry = executable.enter, frame.entry
        self.outputs = outputs

    def __call__(self) -> tuple[Array, ...]:
        status = self._enter(self._entry)
        if status:
            self._executable.fail(status, self._frame, self._layout)
        return self.outputs


class Executable:
    """Runs a program.

    `frozen` gives every frozen slot's array by name: used in place when contiguous, kept alive, and read again on every
    call.  `copied_inputs` counts the arrays that had to be copied to be contiguous.
    """

    def __init__(self, program: Program, frozen: Mapping[str, Any] | None = None, pool: Pool | None = None) -> None:
        self.program = program if program.main is not None else with_main(program.verify(), host_target())
        self.pool = process_pool() if pool is None else pool
        self.copied_inputs = 0
        self._solver = SizeSolver(self.program)
        self._scratch = scratch_sizes(self.program)
        self._inputs = [self.program.buffers[slot] for slot in self.program.slots(Role.INPUT)]
        self._outputs = [self.program.buffers[slot] for slot in self.program.slots(Role.OUTPUT)]
        places = {slot: place for place, slot in enumerate(self.program.arguments)}
        self.input_places = [places[slot] for slot in self.program.slots(Role.INPUT)]
        self.output_places = [places[slot] for slot in self.program.slots(Role.OUTPUT)]
        self._input_order = {slot: k for k, slot in enumerate(self.program.slots(Role.INPUT))}
        self._dtypes = [slot.dtype.numpy for slot in self._inputs]
        self._donated_inputs = [self._input_order[slot.donated] for slot in self._outputs if slot.donated is not None]
        self._plain_inputs = [k for k in range(len(self._inputs)) if k not in self._donated_inputs]
        self.donates = bool(self._donated_inputs)
        self._output_dtypes = [slot.dtype.numpy for slot in self._outputs]
        self._layouts: dict[tuple[tuple[int, ...], ...], Layout] = {}
        self._frames: list[_Frame] = []
        self._frozen = self._bind_frozen(frozen or {})
        sized = [slot for slot in self._frozen if _is_sized(self.program.buffers[slot])]
        self._check_frozen([slot for slot in self._frozen if slot not in sized], {})
        self._sized = sized
        self._load()

    def __call__(
        self, *inputs: Any, out: Sequence[Array] | None = None, sizes: Mapping[str, int] | None = None
    ) -> tuple[Array, ...]:
        """Run on arrays in the order of the input slots; `out` gives arrays to write, `sizes` dims no input shows."""
        arrays = self._arrays(inputs)
        return self.run(self._layout(arrays, sizes), arrays, out)

    @property
    def unsolved(self) -> tuple[Dim, ...]:
        """The dims that no input's shape tells: `sizes` has to give them."""
        return self._solver.unsolved()

    def layout(self, *inputs: Any) -> Layout:
        """What a call on these arrays needs, for `run` on any usable arrays of the same shapes and dtypes."""
        return self._layout(self._arrays(inputs), None)

    def run(self, layout: Layout, arrays: Sequence[Array], out: Sequence[Array] | None = None) -> tuple[Array, ...]:
        """A call without its checks: on usable arrays of the shapes and dtypes that `layout` was made for."""
        frame = self._free_frame()
        try:
            outputs = self._fill(frame, layout, arrays, out)
            if frame.layout is not layout or frame.threads < self.pool.threads:
                self.prepare(frame, layout)
            status = self.enter(frame.entry)
            if status:
                self.fail(status, frame, layout)
        finally:
            self._frames.append(frame)
        return outputs

    def bind(self, *inputs: Any, out: Sequence[Array] | None = None, sizes: Mapping[str, int] | None = None) -> Bound:
        """Check and look up everything once, for many runs on the same arrays (from one thread at a time)."""
        arrays = self._arrays(inputs)
        layout = self._layout(arrays, sizes)
        frame = self.take_frame(layout)
        outputs = self._fill(frame, layout, arrays, out)
        return Bound(self, frame, layout, arrays, outputs)

    def take_frame(self, layout: Layout) -> _Frame:
        """Memory for calls of this layout, to keep; all but the addresses of inputs and outputs is filled in."""
        frame = self._free_frame()
        self.prepare(frame, layout)
        return frame

    def may_take_long(self, layout: Layout) -> bool:
        """Whether a call may take more than some microseconds: a claim is worth that much, and one holds fewer tickets
        than that only where it is all there is."""
        claims = sum(int(call.tickets.evaluate(layout.values)) / call.chunk for call in self.program.calls)
        return bool(self.program.repeats) or claims >= 1

    def _free_frame(self) -> _Frame:
        # Asked for and not looked for: between the look and the taking, another thread may take the last one.
        try:
            return self._frames.pop()
        except IndexError:
            return _Frame(self._pointers())

    def prepare(self, frame: _Frame, layout: Layout) -> None:
        """Put `main`'s arguments for this layout into the frame, which grows where needed."""
        frame.threads = self.pool.threads
        needed = layout.arena_bytes + layout.scratch_bytes * frame.threads
        if needed > frame.capacity:
            frame.reserve(needed)
        operands = frame.operands
        operands[1], operands[2], operands[3] = layout.sizes_address, frame.arena, frame.arena + layout.arena_bytes
        frame.layout = layout

    def fail(self, status: int, frame: _Frame, layout: Layout) -> None:
        """Raise the error of the check that failed."""
        check = self.program.checks[status - 1]
        slot = self.program.buffers[check.value]
        if slot.offset is not None:
            place = frame.arena + int(slot.offset.evaluate(layout.values))
        else:
            place = frame.pointers[self.program.arguments.index(check.value)]
        value = np.frombuffer(ctypes.string_at(place, slot.dtype.itemsize), slot.dtype.numpy)[0]
        error = OutOfRangeError(check.message.format(value=value.item()))
        first_write, early = checks_before_writes(self.program)
        error.overwrote_donated = first_write < len(self.program.steps) and status - 1 not in early
        raise error

    def _load(self) -> None:
        """Load every object and write the table of addresses that `main` calls through."""
        main = self.program.main
        if main is None:
            raise GraphError("expected a program with its main compiled; call with_main first")
        self._libraries = [load(code.image, code.functions) for code in self.program.objects]
        addresses = {name: library[name] for library in self._libraries for name in library.addresses}
        missing = [name for name in self.program.functions if name not in addresses]
        if missing:
            raise GraphError(f"expected object files for every call, none defines {missing}")
        library = load(main.image, main.functions)
        self._libraries.append(library)
        entries = [self.pool.run_address, *(addresses[name] for name in self.program.functions)]
        table = (ctypes.c_void_p * len(entries)).from_address(library[TABLE])
        table[:] = entries
        self.enter = _ENTER_TYPE(library[ENTER])

    def _bind_frozen(self, frozen: Mapping[str, Any]) -> dict[int, Array]:
        slots = {self.program.buffers[slot].name: slot for slot in self.program.slots(Role.FROZEN)}
        if slots.keys() != frozen.keys():
            raise GraphError(f"expected frozen inputs {sorted(slots)}, received {sorted(frozen)}")
        bound: dict[int, Array] = {}
        for name, slot in slots.items():
            buffer = self.program.buffers[slot]
            bound[slot] = self._usable(buffer, buffer.dtype.numpy, frozen[name])
        return bound

    def _check_frozen(self, slots: Sequence[int], values: Mapping[Dim, int]) -> None:
        """Generated code trusts sizes, so an array smaller than its slot must never reach it."""
        for slot in slots:
            array, buffer = self._frozen[slot], self.program.buffers[slot]
            if buffer.stored_bytes is not None:
                wanted = int(buffer.stored_bytes.evaluate(values))
                if array.nbytes < wanted:
                    raise ShapeError(f"frozen input {buffer.name!r}: expected {wanted} bytes, received {array.nbytes}")
            elif array.shape != _evaluated(buffer.shape, values):
                shape = show_shape(buffer.shape)
                raise ShapeError(f"frozen input {buffer.name!r}: expected shape {shape}, received {array.shape}")

    def _pointers(self) -> Any:
        # One more than the program reads: a place for what it does not read.
        pointers = (ctypes.c_void_p * (len(self.program.arguments) + 1))()
        for place, slot in enumerate(self.program.arguments):
            if slot in self._frozen:
                pointers[place] = address(self._frozen[slot])
        return pointers

    def _arrays(self, inputs: tuple[Any, ...]) -> list[Array]:
        if len(inputs) != len(self._inputs):
            names = ", ".join(slot.name for slot in self._inputs)
            raise ShapeError(f"expected {len(self._inputs)} inputs ({names}), received {len(inputs)}")
        return [*map(self._usable, self._inputs, self._dtypes, inputs)]

    def _usable(self, slot: BufferSlot, dtype: np.dtype[Any], value: Any) -> Array:
        if type(value) is np.ndarray and value.dtype == dtype and is_usable(value):
            return value
        array = np.asarray(value)
        if array.dtype != dtype:
            raise DTypeError(f"input {slot.name!r}: expected {slot.dtype}, received {array.dtype}; convert it first")
        return array if is_usable(array) else self._copied(array)

    def _copied(self, array: Array) -> Array:
        self.copied_inputs += 1
        return np.ascontiguousarray(array) if array.flags.aligned else np.ascontiguousarray(array).copy()

    def _layout(self, arrays: list[Array], sizes: Mapping[str, int] | None) -> Layout:
        shapes = tuple([array.shape for array in arrays])
        if sizes:
            return self._new_layout(shapes, sizes)
        found = self._layouts.get(shapes)
        if found is None:
            found = self._new_layout(shapes, None)
            if len(self._layouts) >= _LAYOUTS_KEPT:
                self._layouts.clear()
            self._layouts[shapes] = found
        return found

    def _new_layout(self, shapes: tuple[tuple[int, ...], ...], given: Mapping[str, int] | None) -> Layout:
        solved = self._solver.solve(shapes, given)
        values = dict(zip(self.program.dims, solved, strict=True))
        self._check_frozen(self._sized, values)
        shapes_out = [_evaluated(slot.shape, values) for slot in self._outputs]
        outputs = tuple(
            (shape, dtype, math.prod(shape) * dtype.itemsize)
            for shape, dtype in zip(shapes_out, self._output_dtypes, strict=True)
        )
        arena = int(self.program.arena_bytes.evaluate(values))
        arena += -arena % ALIGNMENT
        scratch = max((int(size.evaluate(values)) for size in self._scratch), default=0)
        array = (ctypes.c_int64 * max(1, len(solved)))(*solved)
        return Layout(array, ctypes.addressof(array), values, outputs, arena, scratch)

    def _fill(
        self, frame: _Frame, layout: Layout, arrays: Sequence[Array], out: Sequence[Array] | None
    ) -> tuple[Array, ...]:
        """Write the inputs' and outputs' addresses; new outputs where none are given."""
        if self.donates:
            arrays = self._with_own_donated(frame, arrays)
        pointers = frame.pointers
        for place, array in zip(self.input_places, arrays, strict=True):
            pointers[place] = address(array)
        if out is None and not self.donates:
            new = [aligned_empty(*output) for output in layout.outputs]
            for place, (_, start) in zip(self.output_places, new, strict=True):
                pointers[place] = start
            return tuple([array for array, _ in new])
        outputs = [self._output(i, layout, arrays, out) for i in range(len(self._outputs))]
        for place, array in zip(self.output_places, outputs, strict=True):
            pointers[place] = address(array)
        return tuple(outputs)

    def _with_own_donated(self, frame: _Frame, arrays: Sequence[Array]) -> Sequence[Array]:
        """The inputs with a copy of each donated one that must not be written: read-only, or read by another input too."""
        donated = [arrays[k] for k in self._donated_inputs]
        places = tuple([(address(array), array.nbytes) for array in donated])
        is_known = places == frame.apart and all(array.flags.writeable for array in donated)
        if is_known and not any(self._meets(frame.spans, arrays[k]) for k in self._plain_inputs):
            return arrays  # as in the call before: a conversation's caches are where they were
        own = list(arrays)
        spans = [(address(array), address(array) + array.nbytes, k) for k, array in enumerate(arrays) if array.nbytes]
        shared = _overlapping([*spans, *self._frozen_spans()])
        for k in self._donated_inputs:
            if k in shared or not arrays[k].flags.writeable:
                own[k] = arrays[k].copy()
                self.copied_inputs += 1
        if not shared:
            frame.apart, frame.spans = places, sorted((start, start + size) for start, size in places if size)
        return own

    @staticmethod
    def _meets(spans: Sequence[tuple[int, int]], array: Array) -> bool:
        """Whether an array shares memory with one of the sorted spans, which share none among themselves."""
        start, size = address(array), array.nbytes
        after = bisect.bisect_right(spans, (start, start))
        is_within = after > 0 and spans[after - 1][1] > start
        return size > 0 and (is_within or (after < len(spans) and spans[after][0] < start + size))

    def _frozen_spans(self) -> list[tuple[int, int, int]]:
        return [(address(array), address(array) + array.nbytes, -1) for array in self._frozen.values() if array.nbytes]

    def _output(self, index: int, layout: Layout, arrays: Sequence[Array], out: Sequence[Array] | None) -> Array:
        donated = self._outputs[index].donated
        if donated is not None:
            return arrays[self._input_order[donated]]
        return aligned_empty(*layout.outputs[index])[0] if out is None else self._given_output(index, layout, out)

    def _given_output(self, index: int, layout: Layout, out: Sequence[Array]) -> Array:
        slot, (shape, dtype, _) = self._outputs[index], layout.outputs[index]
        if len(out) != len(self._outputs):
            raise ShapeError(f"expected {len(self._outputs)} arrays in out, received {len(out)}")
        array = out[index]
        if array.shape != shape:
            raise ShapeError(f"output {slot.name!r}: expected shape {shape}, received {array.shape}")
        if array.dtype != dtype:
            raise DTypeError(f"output {slot.name!r}: expected {slot.dtype}, received {array.dtype}")
        if not (is_usable(array) and array.flags.writeable):
            raise ShapeError(f"output {slot.name!r}: expected a writable C-contiguous array")
        return array


def _is_sized(slot: BufferSlot) -> bool:
    """Whether a slot's size depends on dims, so that it must be checked at each new size."""
    if slot.stored_bytes is not None and not slot.stored_bytes.is_constant:
        return True
    return not all(isinstance(size, int) or size.is_constant for size in slot.shape)


def _overlapping(spans: Iterable[tuple[int, int, int]]) -> set[int]:
    """The numbers of the spans (begin, end, number) that share memory with another one."""
    found: set[int] = set()
    furthest, owner = 0, -1
    for begin, end, number in sorted(spans):
        if begin < furthest:
            found |= {number, owner}
        if end > furthest:
            furthest, owner = end, number
    return found
