"""Rounded rows: long sums of products with coded weights, computed from whole numbers where precision is given up for speed.

    y[i, j] = Σ_b Σ_k x[i, b, k]·(s[j, b]·c[j, b, k] + m[j, b])
    →  d[i, b] = max_k |x[i, b, k]| / 127;   q = i8(x / d);   t[i, b] = d·Σ_k q
       y[i, j] = Σ_b Σ_k s·(d·(q·c)) + m·t/|k|

The rows are rounded once for all sums that read them, in blocks as long as the weights' own, and what is left in each
block is a sum of products of whole numbers, which `loops.nested` gives to an instruction.  Nothing here knows a format:
`loops.codes` finds the code in the arithmetic that decodes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from snell.dtypes import DType, bool_, f32, i8, i32, u8
from snell.graph.primitives import Add, LessThan, Mul
from snell.loops.codes import Coded, coded
from snell.loops.ir import Accumulator, Combine, read
from snell.loops.stage import Partial, Stage
from snell.rewrite.arithmetic import add, divide, multiply, subtract
from snell.rewrite.term import Cast, Load, SelectElse, Tensor, Term, cast, load, number, term, walk
from snell.symbolic import Axis, Expr, as_expr
from snell.targets import Target

__all__ = ["round_rows"]

_GREATEST = 127
_LEAST_BLOCK, _MOST_BLOCK = 16, 256  # terms that share a scale: fewer cost more than they save, more lose accuracy


@dataclass(frozen=True, slots=True)
class _Rounded:
    """A row tensor in blocks of `size` along its last dimension: what it is rounded to, the scales and the blocks' sums."""

    source: Tensor
    size: int

    def _named(self, kind: str, dtype: DType, last: int) -> Tensor:
        return Tensor(f"{self.source.name}.{kind}{self.size}", (*self.source.shape[:-1], last), dtype)

    @property
    def length(self) -> int:
        length = self.source.shape[-1]
        assert isinstance(length, int)
        return length

    @property
    def codes(self) -> Tensor:
        return self._named("codes", i8, self.length)

    @property
    def scales(self) -> Tensor:
        return self._named("scales", f32, self.length // self.size)

    @property
    def sums(self) -> Tensor:
        return self._named("sums", f32, self.length // self.size)

    def stages(self) -> tuple[Stage, ...]:
        """The stages that round the rows."""
        return _scales(self), _codes(self), _sums(self)


@dataclass(frozen=True, slots=True)
class _Product:
    """A stage that adds up products of a row with a coded weight."""

    row: Term
    weight: Coded
    rounded: _Rounded


def round_rows(stages: Sequence[Stage], target: Target) -> list[Stage]:
    """The stages with sums of products over rounded rows, each row rounded after the stage that makes it."""
    if not any(row.accumulator == i32 for row in target.products):
        return list(stages)
    found = {stage.tensor: product for stage in stages if (product := _product(stage)) is not None}
    wanted = dict.fromkeys(product.rounded for product in found.values())
    made = {stage.tensor for stage in stages}
    result = [stage for rounded in wanted if rounded.source not in made for stage in rounded.stages()]
    for stage in stages:
        product = found.get(stage.tensor)
        result.append(stage if product is None else _over_codes(stage, product))
        for rounded in wanted:
            if rounded.source == stage.tensor:
                result += rounded.stages()
    return result


def _product(stage: Stage) -> _Product | None:
    if len(stage.partials) != 1:
        return None
    (partial,) = stage.partials
    body, accumulator = partial.body, partial.accumulator
    if accumulator.combine is not Combine.SUM or accumulator.dtype != f32 or not isinstance(body.op, Mul):
        return None
    for row, weight in (body.args, body.args[::-1]):
        if _is_row(row) and _is_frozen(weight):
            found = coded(weight, frozenset(stage.reduced) & row.free)
            rounded = None if found is None else _blocks(row, found)
            if found is not None and rounded is not None:
                return _Product(row, found, rounded)
    return None


def _is_row(item: Term) -> bool:
    if not isinstance(item.op, Load) or item.dtype != f32 or item.op.guards:
        return False
    return not item.op.tensor.frozen and item.op.tensor.storage is None and bool(item.op.tensor.shape)


def _is_frozen(item: Term) -> bool:
    """Whether weights alone are loaded, in some place that depends on no data."""
    loads = [part.op for part in walk(item) if isinstance(part.op, Load)]
    return bool(loads) and all(op.tensor.frozen and not op.guards for op in loads)


def _blocks(row: Term, weight: Coded) -> _Rounded | None:
    """The row's blocks: the code's axes must walk whole ones, side by side."""
    assert isinstance(row.op, Load)
    length, last = row.op.tensor.shape[-1], row.op.indices[-1]
    if not isinstance(length, int) or weight.greatest > u8.range[1]:
        return None
    if any(weight.axes & index.axes() for index in row.op.indices[:-1]):
        return None
    size = 1
    for axis in sorted(weight.axes, key=lambda axis: (last.coefficient(axis), str(axis))):
        if last.coefficient(axis) != size or not isinstance(axis.extent, int):
            return None
        size *= axis.extent
    others = [k for monomial, k in last.terms if not set(monomial) & weight.axes]
    whole = length % size == 0 and last.constant % size == 0 and all(k % size == 0 for k in others)
    return _Rounded(row.op.tensor, size) if whole and _LEAST_BLOCK <= size <= _MOST_BLOCK else None


def _over_codes(stage: Stage, product: _Product) -> Stage:
    """The stage reading rounded rows, its sums equal to those of the rows that the codes stand for."""
    (partial,) = stage.partials
    rounded, weight = product.rounded, product.weight
    assert isinstance(product.row.op, Load)
    indices = product.row.op.indices
    block = (*indices[:-1], _block_of(indices[-1], weight.axes, rounded.size))
    codes, scale, total = load(rounded.codes, indices), load(rounded.scales, block), load(rounded.sums, block)
    code = term(Cast(), (weight.code,), u8)
    value = multiply(scale, multiply(cast(codes, f32), cast(code, f32)))
    if weight.least:
        value = add(value, multiply(total, number(Fraction(weight.least, rounded.size), f32)))
    if weight.scale is not None:
        value = multiply(weight.scale, value)
    if weight.offset is not None:
        mean = multiply(total, number(Fraction(1, rounded.size), f32))
        value = add(value, multiply(weight.offset, mean))
    return replace(stage, partials=(Partial(partial.accumulator, value),))


def _block_of(place: Expr, inner: frozenset[Axis], size: int) -> Expr:
    """The block of a place along the last dimension; every coefficient is a whole number of blocks."""
    start = place.substitute({axis: as_expr(0) for axis in inner})  # type: ignore[arg-type]
    return start // size


def _axes(rounded: _Rounded, name: str) -> tuple[tuple[Axis, ...], Axis, Axis]:
    """Axes of the leading dimensions, of the blocks, and of a block's positions."""
    leading = tuple(Axis(f"{name}_{k}", size) for k, size in enumerate(rounded.source.shape[:-1]))
    return leading, Axis(f"{name}_block", rounded.length // rounded.size), Axis(f"{name}_within", rounded.size)


def _place(leading: tuple[Axis, ...], block: Axis, within: Axis | None, size: int) -> tuple[Expr, ...]:
    last = as_expr(block) if within is None else as_expr(block) * size + as_expr(within)
    return (*map(as_expr, leading), last)


def _scales(rounded: _Rounded) -> Stage:
    leading, block, within = _axes(rounded, rounded.scales.name)
    x = load(rounded.source, _place(leading, block, within, rounded.size))
    negative = term(LessThan(), (x, number(0, f32)), bool_)
    size = term(SelectElse(), (negative, multiply(number(-1, f32), x), x), f32)
    axes = (*leading, block)
    accumulator = Accumulator("acc0", Combine.MAX, f32, axes)
    value = multiply(read(accumulator), number(Fraction(1, _GREATEST), f32))
    places = _place(leading, block, None, 1)
    return Stage(rounded.scales, axes, places, (within,), (Partial(accumulator, size),), value)


def _codes(rounded: _Rounded) -> Stage:
    """Rounded to nearest: the values lie within ±127 scales, so that truncating what is 128.5 more is a floor."""
    leading, block, within = _axes(rounded, rounded.codes.name)
    places = _place(leading, block, within, rounded.size)
    scale = load(rounded.scales, _place(leading, block, None, 1))
    raised = term(Add(), (divide(load(rounded.source, places), scale), number(Fraction(257, 2), f32)), f32)
    value = cast(subtract(cast(raised, i32), number(128, i32)), i8)
    return Stage(rounded.codes, (*leading, block, within), places, (), (), value)


def _sums(rounded: _Rounded) -> Stage:
    leading, block, within = _axes(rounded, rounded.sums.name)
    axes = (*leading, block)
    accumulator = Accumulator("acc0", Combine.SUM, f32, axes)
    codes = cast(load(rounded.codes, _place(leading, block, within, rounded.size)), f32)
    places = _place(leading, block, None, 1)
    value = multiply(read(accumulator), load(rounded.scales, places))
    return Stage(rounded.sums, axes, places, (within,), (Partial(accumulator, codes),), value)
