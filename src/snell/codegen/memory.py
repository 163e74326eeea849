"""Loads and stores: addresses, masks, gathers, packed fields.

Memory outside of a guard is never touched: lanes are masked, and a scalar condition selects between the address and a
constant of zeros, without a branch.  Reads of buffers that the kernel writes are numbered by the buffer's version.
"""

from __future__ import annotations

from snell.codegen.assembler import Value
from snell.codegen.indexing import Indexing, Origin
from snell.codegen.instructions import Instructions
from snell.codegen.layout import LayoutPlan, plan_layout
from snell.codegen.linear import Linear
from snell.codegen.literals import memory_type, suffix, type_text
from snell.codegen.position import Positions
from snell.codegen.predicates import Condition, Predicates, prefix_mask
from snell.dtypes import DType, i64, u8
from snell.errors import CompileError
from snell.loops.ir import Buffer, BufferScope, Strided
from snell.rewrite.term import Tensor
from snell.symbolic import Expr, as_expr

__all__ = ["Memory", "zeros_declaration"]

_ZEROS = "@snell.zeros"


def zeros_declaration() -> str:
    """What a refused scalar condition reads: enough for 64 lanes of eight bytes."""
    return f"{_ZEROS} = private unnamed_addr constant [512 x i8] zeroinitializer, align 64"


class Memory:
    """Reads and writes buffers at the current position."""

    def __init__(self, code: Instructions, positions: Positions, indexing: Indexing, predicates: Predicates) -> None:
        self.code = code
        self.positions = positions
        self.indexing = indexing
        self.predicates = predicates
        self.buffers: dict[Tensor, Buffer] = {}
        self.pointers: dict[Tensor, str] = {}
        self._plans: dict[Tensor, LayoutPlan] = {}
        self.origins: dict[Tensor, Origin] = {}
        self.uses_zeros = False
        self._versions: dict[Tensor, int] = {}

    def bind(self, buffer: Buffer, pointer: str, origin: Origin | None = None) -> None:
        self.buffers[buffer.tensor] = buffer
        self.pointers[buffer.tensor] = pointer
        self._plans[buffer.tensor] = plan_layout(buffer)
        if origin is not None:
            self.origins[buffer.tensor] = origin

    def buffer(self, tensor: Tensor) -> Buffer:
        found = self.buffers.get(tensor)
        if found is None:
            raise CompileError(f"tensor {tensor.name} has no buffer here; declare it in the kernel or allocate it")
        return found

    def is_written(self, tensor: Tensor) -> bool:
        buffer = self.buffer(tensor)
        return buffer.writable or buffer.scope is not BufferScope.PARAMETER

    # -- loads

    def load(self, tensor: Tensor, indices: tuple[Expr, ...], guards: tuple[Expr, ...], path: Condition) -> Value:
        """The element (or lanes of elements); 0 where a guard fails; `path` protects indices that may be outside."""
        buffer = self.buffer(tensor)
        condition = self.predicates.all(guards)
        forms = [self.indexing.linear(index, self.origins.get(tensor)) for index in indices]
        if path is not True and not _is_inside(buffer, indices, forms):
            condition = self.predicates.both(condition, path)
        if condition is False:
            return self.code.constant(0, buffer.dtype, 0)
        offset = self._plans[tensor].offset(forms, self.indexing)
        if buffer.dtype.is_packed:
            return self._field(buffer, offset, condition)
        value = self._element(buffer, buffer.dtype, offset, condition)
        if buffer.dtype.kind == "bool":
            return self.code.compare("icmp", "ne", value, self.code.constant(0, u8, value.lanes))
        return value

    def offset(self, tensor: Tensor, indices: tuple[Expr, ...]) -> Linear:
        """Where the element lies at the current position."""
        forms = [self.indexing.linear(index, self.origins.get(tensor)) for index in indices]
        self.buffer(tensor)
        return self._plans[tensor].offset(forms, self.indexing)

    def load_word(self, tensor: Tensor, indices: tuple[Expr, ...], guards: tuple[Expr, ...], word: DType) -> Value:
        """Neighbouring elements as one word (or lanes of words), from the place of the first; 0 where a guard fails."""
        condition = self.predicates.all(guards)
        if condition is False:
            return self.code.constant(0, word, 0)
        return self._element(self.buffer(tensor), word, self.offset(tensor, indices), condition)

    def store_word(self, tensor: Tensor, indices: tuple[Expr, ...], value: Value) -> None:
        """Write neighbouring elements as one word (or lanes of words)."""
        buffer, offset = self.buffer(tensor), self.offset(tensor, indices)
        if offset.is_scalar:
            self._store_scalar(buffer, offset, value)
        else:
            self._store_contiguous(buffer, offset, self.code.splat(value, self.positions.lanes))
        self._versions[tensor] = self._versions.get(tensor, 0) + 1

    def _element(self, buffer: Buffer, dtype: DType, offset: Linear, condition: Condition) -> Value:
        dtype = u8 if dtype.kind == "bool" else dtype
        if offset.vector is not None:
            return self._gather(buffer, dtype, offset, condition)
        if not offset.lane:
            if isinstance(condition, Value) and condition.lanes:
                return self._gather(buffer, dtype, offset, condition)
            return self._scalar_load(buffer, dtype, offset, condition)
        if offset.lane == dtype.itemsize:
            return self._contiguous_load(buffer, dtype, offset, condition)
        return self._strided_load(buffer, dtype, offset, condition)

    def _scalar_load(self, buffer: Buffer, dtype: DType, offset: Linear, condition: Condition) -> Value:
        pointer = self._protected(self.pointer(buffer.tensor, offset), condition)
        return self._read(
            buffer, f"load {memory_type(dtype)}, ptr {pointer}, align {_alignment(buffer)}", dtype, 0, pointer
        )

    def _contiguous_load(self, buffer: Buffer, dtype: DType, offset: Linear, condition: Condition) -> Value:
        lanes = self.positions.lanes
        pointer = self.pointer(buffer.tensor, offset)
        if not isinstance(condition, Value) or not condition.lanes:
            pointer = self._protected(pointer, condition)
            condition = True
        mask = self._mask(condition)
        kind = type_text(dtype, lanes)
        if mask is None:
            return self._read(buffer, f"load {kind}, ptr {pointer}, align {_alignment(buffer)}", dtype, lanes, pointer)
        name = f"llvm.masked.load.{suffix(dtype, lanes)}.p0"
        self.code.scopes.declarations.add(f"declare {kind} @{name}(ptr, <{lanes} x i1>, {kind})")
        place = f"ptr align {_alignment(buffer)} {pointer}"
        # LLVM 22.1 splits a load wider than a register, and where two halves at one address are masked out whole it
        # reads them all the same; not so when the zeros are selected afterwards.
        is_split = lanes * dtype.bits > self.code.target.vector_bits
        other = "poison" if is_split else "zeroinitializer"
        text = f"call {kind} @{name}({place}, <{lanes} x i1> {mask.text}, {kind} {other})"
        loaded = self._read(buffer, text, dtype, lanes, pointer, mask.text)
        return self.code.select(mask, loaded, self.code.constant(0, dtype, lanes)) if is_split else loaded

    def _strided_load(self, buffer: Buffer, dtype: DType, offset: Linear, condition: Condition) -> Value:
        """A constant distance between lanes: scalar loads, unless lanes are masked at run time."""
        mask = self._mask(True)
        if (isinstance(condition, Value) and condition.lanes) or (mask is not None and mask.text.startswith("%")):
            return self._gather(buffer, dtype, offset, condition)
        lanes = self.positions.lanes
        count = _static_count(self.positions, lanes)
        result = self.code.constant(0, dtype, lanes)
        for lane in range(count):
            place = Linear(offset.constant + lane * offset.lane, offset.terms)
            result = self.code.insert(result, self._scalar_load(buffer, dtype, place, condition), lane)
        return result

    def _gather(self, buffer: Buffer, dtype: DType, offset: Linear, condition: Condition) -> Value:
        lanes = self.positions.lanes
        mask = self._mask(condition) or prefix_mask(lanes, lanes)
        pointers = self._pointers(buffer.tensor, offset)
        kind = type_text(dtype, lanes)
        name = f"llvm.masked.gather.{suffix(dtype, lanes)}.v{lanes}p0"
        self.code.scopes.declarations.add(f"declare {kind} @{name}(<{lanes} x ptr>, <{lanes} x i1>, {kind})")
        text = (
            f"call {kind} @{name}(<{lanes} x ptr> align {_alignment(buffer)} {pointers}, "
            f"<{lanes} x i1> {mask.text}, {kind} zeroinitializer)"
        )
        return self._read(buffer, text, dtype, lanes, pointers, mask.text)

    def _read(self, buffer: Buffer, text: str, dtype: DType, lanes: int, *operands: str) -> Value:
        scopes = self.code.scopes
        if self.is_written(buffer.tensor):
            name = scopes.emit_here(text, (buffer.tensor.name, self._versions.get(buffer.tensor, 0)))
        else:
            registers = max(1.0, lanes * dtype.bits / self.code.target.vector_bits) if lanes else float(dtype.is_float)
            name = scopes.emit_limited(text, registers, *operands, memory=True)
        return Value(name, dtype, lanes)

    # -- packed fields

    def _field(self, buffer: Buffer, bits: Linear, condition: Condition) -> Value:
        """A field of less than a byte: its byte, shifted and masked."""
        dtype, eight = buffer.dtype, Linear.known(8)
        if bits.vector is None and 0 < bits.lane < 8 and bits.lane == dtype.bits:
            found = self._adjacent_fields(buffer, bits, condition)
            if found is not None:
                return found
        byte = self._element(buffer, u8, self.indexing.floor_divide(bits, eight), condition)
        shift = self._shift_amount(self.indexing.remainder(bits, eight))
        byte, shift = self.code.join(byte, shift)
        shifted = byte if shift.text in ("0", "splat (i8 0)") else self.code.binary("lshr", byte, shift)
        value = self.code.binary("and", shifted, self.code.constant((1 << dtype.bits) - 1, u8, shifted.lanes))
        return Value(value.text, dtype, value.lanes)

    def _shift_amount(self, form: Linear) -> Value:
        if form.is_constant:
            return self.code.constant(form.constant, u8, 0)
        if form.is_scalar:
            return self.code.convert("trunc", Value(str(self.indexing.scalar(form)), i64), u8)
        return self.code.convert("trunc", self.indexing.vector(form), u8)

    def _adjacent_fields(self, buffer: Buffer, bits: Linear, condition: Condition) -> Value | None:
        """Lanes are neighbouring fields that begin at a byte: load the bytes once and spread them."""
        lanes, width = self.positions.lanes, bits.lane
        start = Linear(bits.constant, bits.terms, bits.low, bits.high)
        aligned = self.indexing.multiple(start) % 8 == 0
        if not aligned or condition is not True or self._mask(True) is not None or lanes * width % 8:
            return None
        count = lanes * width // 8
        offset = self.indexing.floor_divide(start, Linear.known(8))
        pointer = self.pointer(buffer.tensor, offset)
        packed = self._read(buffer, f"load <{count} x i8>, ptr {pointer}, align 1", u8, count, pointer)
        spread = self.code.shuffle(packed, None, [lane * width // 8 for lane in range(lanes)])
        shifts = Value(f"<{', '.join(f'i8 {lane * width % 8}' for lane in range(lanes))}>", u8, lanes)
        shifted = self.code.binary("lshr", spread, shifts)
        value = self.code.binary("and", shifted, self.code.constant((1 << width) - 1, u8, lanes))
        return Value(value.text, buffer.dtype, lanes)

    # -- stores

    def store(self, tensor: Tensor, indices: tuple[Expr, ...], value: Value) -> None:
        """Write the element (or the lanes in range)."""
        buffer = self.buffer(tensor)
        forms = [self.indexing.linear(index, self.origins.get(tensor)) for index in indices]
        offset = self._plans[tensor].offset(forms, self.indexing)
        if buffer.dtype.kind == "bool":
            value = self.code.convert("zext", value, u8)
        if offset.is_scalar:
            self._store_scalar(buffer, offset, value)
        elif offset.vector is None and offset.lane == value.dtype.itemsize:
            self._store_contiguous(buffer, offset, self.code.splat(value, self.positions.lanes))
        else:
            self._scatter(buffer, offset, self.code.splat(value, self.positions.lanes))
        self._versions[tensor] = self._versions.get(tensor, 0) + 1

    def prefetch(self, tensor: Tensor, indices: tuple[Expr, ...]) -> None:
        """Ask for a cache line; the place may lie outside of the buffer.

        Into the first cache: asking for the second alone took longer (measured).
        """
        buffer = self.buffer(tensor)
        forms = [self.indexing.linear(index, self.origins.get(tensor)) for index in indices]
        offset = self._plans[tensor].offset(forms, self.indexing)
        if not offset.is_scalar:
            raise CompileError(f"a prefetch of {buffer.name} inside of lanes; place it before the vector level")
        self.code.scopes.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        pointer = self.pointer(buffer.tensor, offset)
        self.code.scopes.effect(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    def _store_scalar(self, buffer: Buffer, offset: Linear, value: Value) -> None:
        if value.lanes:
            raise CompileError(f"lanes of {self.positions.vector} are stored in one element of {buffer.name}")
        pointer = self.pointer(buffer.tensor, offset)
        self.code.scopes.effect(
            f"store {memory_type(value.dtype)} {value.text}, ptr {pointer}, align {_alignment(buffer)}"
        )

    def _store_contiguous(self, buffer: Buffer, offset: Linear, value: Value) -> None:
        pointer, mask = self.pointer(buffer.tensor, offset), self._mask(True)
        kind = type_text(value.dtype, value.lanes)
        if mask is None:
            self.code.scopes.effect(f"store {kind} {value.text}, ptr {pointer}, align {_alignment(buffer)}")
            return
        name = f"llvm.masked.store.{suffix(value.dtype, value.lanes)}.p0"
        self.code.scopes.declarations.add(f"declare void @{name}({kind}, ptr, <{value.lanes} x i1>)")
        place = f"ptr align {_alignment(buffer)} {pointer}"
        self.code.scopes.effect(f"call void @{name}({kind} {value.text}, {place}, <{value.lanes} x i1> {mask.text})")

    def _scatter(self, buffer: Buffer, offset: Linear, value: Value) -> None:
        lanes, mask = value.lanes, self._mask(True)
        if offset.vector is None and (mask is None or not mask.text.startswith("%")):
            for lane in range(_static_count(self.positions, lanes)):
                place = Linear(offset.constant + lane * offset.lane, offset.terms)
                self._store_scalar(buffer, place, self.code.extract(value, lane))
            return
        kind = type_text(value.dtype, lanes)
        name = f"llvm.masked.scatter.{suffix(value.dtype, lanes)}.v{lanes}p0"
        self.code.scopes.declarations.add(f"declare void @{name}({kind}, <{lanes} x ptr>, <{lanes} x i1>)")
        pointers = self._pointers(buffer.tensor, offset)
        chosen = mask or prefix_mask(lanes, lanes)
        place = f"<{lanes} x ptr> align {_alignment(buffer)} {pointers}"
        self.code.scopes.effect(f"call void @{name}({kind} {value.text}, {place}, <{lanes} x i1> {chosen.text})")

    # -- addresses

    def pointer(self, tensor: Tensor, offset: Linear) -> str:
        """Base plus the scalar part, outer loops first so that each scope adds its own share."""
        emit, pointer = self.code.scopes.emit, self.pointers[tensor]
        for name, k in self.indexing.parts(offset):
            step = self.code.integer("mul", name, k)
            pointer = emit(f"getelementptr i8, ptr {pointer}, i64 {step}", pointer, step)
        if offset.constant:
            pointer = emit(f"getelementptr i8, ptr {pointer}, i64 {offset.constant}", pointer)
        return pointer

    def _pointers(self, tensor: Tensor, offset: Linear) -> str:
        """One address a lane."""
        lanes = self.positions.lanes
        base = self.pointer(tensor, Linear(offset.constant, offset.terms))
        steps = Linear(0, {}, 0, 0, offset.lane, offset.vector)
        vector = self.indexing.vector(steps)
        return self.code.scopes.emit(f"getelementptr i8, ptr {base}, <{lanes} x i64> {vector.text}", base, vector.text)

    def _protected(self, pointer: str, condition: Condition) -> str:
        if condition is True:
            return pointer
        assert isinstance(condition, Value)
        self.uses_zeros = True
        text = f"select i1 {condition.text}, ptr {pointer}, ptr {_ZEROS}"
        return self.code.scopes.emit(text, condition.text, pointer)

    def _mask(self, condition: Condition) -> Value | None:
        """The lanes in range that also meet the condition; None for all."""
        mask = self.predicates.lane_mask()
        if not isinstance(condition, Value):
            return mask
        condition = self.code.splat(condition, self.positions.lanes)
        return condition if mask is None else self.code.binary("and", condition, mask)


def _alignment(buffer: Buffer) -> int:
    return 1 if isinstance(buffer.layout, Strided) else buffer.dtype.itemsize


def _static_count(positions: Positions, lanes: int) -> int:
    assert positions.vector is not None
    mask = positions.at[positions.vector].mask
    return mask if isinstance(mask, int) else lanes


def _is_inside(buffer: Buffer, indices: tuple[Expr, ...], forms: list[Linear]) -> bool:
    """Every index is proved to lie inside of the buffer's shape."""
    for index, form, size in zip(indices, forms, buffer.shape, strict=True):
        if not (form.low >= 0 or index.is_non_negative()):
            return False
        limit = as_expr(size)
        if not (form.high < limit.bounds()[0] or (limit - 1 - index).is_non_negative()):
            return False
    return True
