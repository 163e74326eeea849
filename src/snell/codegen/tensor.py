"""Tensor lanes: a group of reduced positions that one instruction of the target multiplies and adds up.

Operands are words, one a lane, of as many elements as the group has positions.  Where those are neighbours in memory
the word is loaded as it lies there, else it is put together from its elements.  Positions beyond the end of a range are
zeros in both operands.  A store in tensor lanes writes a word, zeros beyond the end included: only a blocked buffer has
words that end outside of the range, and it has storage for whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from snell.codegen.assembler import Value
from snell.codegen.byte_fields import ByteField, byte_fields
from snell.codegen.expressions import Expressions
from snell.codegen.linear import Linear
from snell.codegen.literals import type_text
from snell.codegen.position import Position
from snell.dtypes import DType, bf16, u8, u16, u32, u64
from snell.errors import CompileError
from snell.loops.ir import Blocked, Store, Update, converted_factors
from snell.rewrite.term import Load, Tensor, Term
from snell.symbolic import Axis, Expr
from snell.targets import GroupedProduct

__all__ = ["Group", "TensorLanes"]

_WORDS: dict[int, DType] = {16: u16, 32: u32, 64: u64}


@dataclass(frozen=True, slots=True)
class Group:
    """The positions of an axis that one instruction takes, at most `size`."""

    axis: Axis
    positions: tuple[Position, ...]
    size: int

    @property
    def is_whole(self) -> bool:
        return len(self.positions) == self.size


class TensorLanes:
    """Emits the statements of a tensor level at one group of positions; the axis stands at the first."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.code = expressions.code
        self.memory = expressions.memory

    # -- statements

    def update(self, statement: Update, group: Group) -> None:
        """Add the group's products to the accumulator by the target's instruction."""
        accumulator = statement.accumulator
        left, right = self._factors(statement)
        row = self._row(left, right, accumulator.dtype, group)
        if row.left != left.dtype:
            left, right = right, left
        accumulators = self.expressions.accumulators
        slot = accumulators.slot(accumulator)
        old = accumulators.current(accumulator, slot)
        words = (self._word(left, group), self._word(right, group))
        result = self._multiplied(row, self._widened(old, row.lanes), words)
        accumulators.update(accumulator, self._narrowed(result, old.lanes), slot)

    def store(self, statement: Store, group: Group) -> None:
        """Write the group as words where its places are neighbours, else each element."""
        word = self._word_type(statement.tensor.dtype, group.size)
        forms = self._forms(statement.tensor, statement.indices, group)
        first = forms[0]
        if self._adjacent(statement.tensor, forms, group) and first.vector is None and first.lane in (0, word.itemsize):
            self.memory.store_word(statement.tensor, statement.indices, self._word(statement.value, group))
            return
        at = self.expressions.positions.at
        for position in group.positions:
            at[group.axis] = position
            value = self.expressions.statement_value(statement.value)
            self.memory.store(statement.tensor, statement.indices, value)

    # -- the instruction

    def _factors(self, statement: Update) -> tuple[Term, Term]:
        factors = converted_factors(statement.value)
        if factors is None:
            raise CompileError(f"tensor lanes need a product of converted values, received {statement.value}")
        return factors

    def _row(self, left: Term, right: Term, accumulator: DType, group: Group) -> GroupedProduct:
        wanted = {(left.dtype, right.dtype), (right.dtype, left.dtype)}
        for row in self.code.target.products:
            fits = row.group == group.size and self.expressions.positions.lanes <= row.lanes
            if fits and row.accumulator == accumulator and (row.left, row.right) in wanted:
                return row
        raise CompileError(
            f"the target multiplies no {group.size} pairs of {left.dtype} and {right.dtype} at once; "
            f"schedule the product without tensor lanes"
        )

    def _multiplied(self, row: GroupedProduct, old: Value, words: tuple[Value, Value]) -> Value:
        scopes, code = self.code.scopes, self.code
        texts = [old.text]
        kinds = [type_text(old.dtype, old.lanes)]
        for dtype, word in zip((row.left, row.right), words, strict=True):
            wide = self._widened(word, row.lanes) if word.lanes else code.splat(word, row.lanes)
            element = "bfloat" if dtype == bf16 else f"i{dtype.bits}"
            kinds.append(f"<{row.lanes * row.group} x {element}>")
            texts.append(
                scopes.emit(f"bitcast {type_text(wide.dtype, wide.lanes)} {wide.text} to {kinds[-1]}", wide.text)
            )
        scopes.declarations.add(f"declare {kinds[0]} @{row.instruction}({', '.join(kinds)})")
        operands = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, texts, strict=True))
        return Value(scopes.emit(f"call {kinds[0]} @{row.instruction}({operands})", *texts), old.dtype, old.lanes)

    def _widened(self, value: Value, lanes: int) -> Value:
        """The value in the first lanes of a whole register; a scalar in all of them."""
        if not value.lanes:
            return self.code.splat(value, lanes)
        if value.lanes == lanes:
            return value
        return self.code.shuffle(value, None, [lane % value.lanes for lane in range(lanes)])

    def _narrowed(self, value: Value, lanes: int) -> Value:
        if lanes == value.lanes:
            return value
        return self.code.shuffle(value, None, range(lanes)) if lanes else self.code.extract(value, 0)

    # -- words

    def _word_type(self, dtype: DType, size: int) -> DType:
        word = _WORDS.get(dtype.bits * size)
        if word is None or dtype.bits not in (8, 16):
            raise CompileError(f"{size} elements of {dtype} make no word; a group is 2, 4 or 8 bytes of whole elements")
        return word

    def _word(self, item: Term, group: Group) -> Value:
        """The group's elements of a term side by side, for each lane (or one for all lanes)."""
        word = self._word_type(item.dtype, group.size)
        if isinstance(item.op, Load):
            loaded = self._loaded(item.op, word, group)
            if loaded is not None:
                return loaded
        fields = byte_fields(item)
        if fields:
            return self._joined(fields, word, group)
        at, begun = self.expressions.positions.at, group.positions[0]
        result: Value | None = None
        for number, position in enumerate(group.positions):
            at[group.axis] = position
            part = self._part(self.expressions.statement_value(item), word, number)
            result = part if result is None else self.code.binary("or", *self.code.join(result, part))
        at[group.axis] = begun
        assert result is not None
        return result

    def _joined(self, fields: Sequence[ByteField], word: DType, group: Group) -> Value:
        """Fields of bytes, each by a shift and a mask of the whole word."""
        result: Value | None = None
        for field in fields:
            value = self._word(field.source, group)
            if field.shift:
                shift = self.code.constant(abs(field.shift), word, value.lanes)
                value = self.code.binary("shl" if field.shift > 0 else "lshr", value, shift)
            mask = sum(field.mask << 8 * k for k in range(group.size))
            value = self.code.binary("and", value, self.code.constant(Fraction(mask), word, value.lanes))
            result = value if result is None else self.code.binary("or", *self.code.join(result, value))
        assert result is not None
        return result

    def _part(self, element: Value, word: DType, number: int) -> Value:
        """One element at its place in the word."""
        bits = element.dtype.bits
        raw = Value(element.text, u16 if bits == 16 else u8, element.lanes)
        wide = self.code.convert("zext", raw, word)
        if not number:
            return wide
        return self.code.binary("shl", wide, self.code.constant(number * bits, word, wide.lanes))

    def _loaded(self, source: Load, word: DType, group: Group) -> Value | None:
        """The word as it lies in memory, None where its elements are not neighbours or have guards of their own."""
        tensor, indices, guards = source.tensor, source.indices, source.guards
        if any(group.axis in guard.axes() for guard in guards) or tensor.dtype.is_packed:
            return None
        forms = self._forms(tensor, indices, group)
        if forms[0].vector is not None or not self._adjacent(tensor, forms, group):
            return None
        value = self.memory.load_word(tensor, indices, guards, word)
        if group.is_whole:
            return value
        kept = (1 << tensor.dtype.bits * len(group.positions)) - 1
        return self.code.binary("and", value, self.code.constant(Fraction(kept), word, value.lanes))

    def _forms(self, tensor: Tensor, indices: tuple[Expr, ...], group: Group) -> list[Linear]:
        at, begun = self.expressions.positions.at, group.positions[0]
        forms: list[Linear] = []
        for position in group.positions:
            at[group.axis] = position
            forms.append(self.memory.offset(tensor, indices))
        at[group.axis] = begun
        return forms

    def _adjacent(self, tensor: Tensor, forms: list[Linear], group: Group) -> bool:
        """Whether the group's elements are neighbours, and the word lies in the buffer."""
        first, size = forms[0], tensor.dtype.itemsize
        if not group.is_whole:
            layout = self.memory.buffer(tensor).layout
            if not isinstance(layout, Blocked) or first.constant % (size * group.size) or not first.lane:
                return False
            if self.expressions.indexing.multiple(first) % (size * group.size):
                return False
            if first.lane != size * group.size:
                return False
        return all(
            form.constant - first.constant == k * size and form.terms == first.terms and form.lane == first.lane
            for k, form in enumerate(forms)
        )
