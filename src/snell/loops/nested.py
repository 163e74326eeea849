"""Nested sums: a float sum whose inner axes only a product of whole numbers depends on, which sums exactly inside.

    Σ_b Σ_k s[b]·(d[b]·(f32(q[b, k])·f32(c[b, k]))) + m[b]  =  Σ_b s[b]·(d[b]·f32(Σ_k i32(q)·i32(c))) + |k|·m[b]

The inner sum is one of whole numbers in the accumulator of the target's instruction; everything around it is worked out
once a block instead of once a term.  It is found in a stage as it is written, for every stage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from snell.dtypes import f32
from snell.graph.primitives import Add, Mul
from snell.loops.access import access_of
from snell.loops.ir import Combine, converted_factors
from snell.loops.stage import Stage
from snell.rewrite.arithmetic import add, constant_of, multiply
from snell.rewrite.term import Load, Term, children, number, walk
from snell.symbolic import Axis
from snell.targets import GroupedProduct, Target

__all__ = ["NestedSum", "nested_sum", "nested_value"]

_MOST_BLOCKS = 4096  # numbers that one lane of the float sum takes in
_MOST_INNER = 256  # terms that are written out


@dataclass(frozen=True, slots=True)
class NestedSum:
    """`product` of a `weight` and an `other` factor is summed over `inner` by the instruction `row`, in groups of `grouped`.

    `vector` is the data axis whose positions are its lanes: one of the weight's alone; `rows` is one of the other's.
    """

    stage: Stage
    product: Term
    weight: Term
    other: Term
    row: GroupedProduct
    inner: tuple[Axis, ...]
    grouped: Axis
    vector: Axis
    rows: Axis | None

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The reduced axes around the inner sum."""
        return tuple(axis for axis in self.stage.reduced if axis not in self.inner)


def nested_sum(stage: Stage, target: Target) -> NestedSum | None:
    """How the stage's sum nests for an instruction of the target; None where it does not."""
    if len(stage.partials) != 1 or stage.ranges or not any(row.accumulator.is_integer for row in target.products):
        return None
    (partial,) = stage.partials
    accumulator, body = partial.accumulator, partial.body
    if accumulator.combine is not Combine.SUM or accumulator.dtype != f32:
        return None
    found = [(item, row) for item in walk(body) if (row := _row(item, target)) is not None]
    if len(found) != 1:
        return None
    product, row = found[0]
    inner = _inner_axes(stage, body, product)
    if not inner or nested_value(body, product, number(0, f32), frozenset(inner)) is None:
        return None
    return _nested(stage, product, row, inner)


def _row(item: Term, target: Target) -> GroupedProduct | None:
    """The instruction whose accumulator holds sums of this product of whole numbers."""
    factors = converted_factors(item)
    if factors is None or item.dtype != f32:
        return None
    wanted = (factors[0].dtype, factors[1].dtype)
    rows = (row for row in target.products if row.accumulator.is_integer)
    return next((row for row in rows if wanted in ((row.left, row.right), (row.right, row.left))), None)


def _inner_axes(stage: Stage, body: Term, product: Term) -> tuple[Axis, ...]:
    """The reduced axes on which both factors depend and nothing else does; none where they have too many positions."""
    around: set[Axis] = set()
    stack = [body]
    while stack:
        item = stack.pop()
        if item is product:
            continue
        if isinstance(item.op, Load):
            around |= item.free
        stack.extend(children(item))
    both = product.args[0].free & product.args[1].free
    inner = tuple(axis for axis in stage.reduced if axis in both and axis not in around)
    extents = [axis.extent for axis in inner if isinstance(axis.extent, int)]
    rest = math.prod(stage.extent(axis) for axis in stage.reduced if axis not in inner)
    if len(extents) < len(inner) or math.prod(extents) > _MOST_INNER or rest > _MOST_BLOCKS:
        return ()
    return inner


def _nested(stage: Stage, product: Term, row: GroupedProduct, inner: tuple[Axis, ...]) -> NestedSum | None:
    """The sum with its lanes along the axis that the frozen factor alone has, and groups along words of the other one."""
    factors = converted_factors(product)
    assert factors is not None
    weight, other = factors if _is_frozen(factors[0]) else factors[::-1]
    if not _is_frozen(weight) or not isinstance(other.op, Load):
        return None
    words = [
        axis for axis in inner
        if access_of(other).stride(axis) == 1.0 and isinstance(axis.extent, int) and axis.extent % row.group == 0
    ]  # fmt: skip
    lanes = [axis for axis in stage.axes if axis in weight.free and axis not in other.free]
    rows = [axis for axis in stage.axes if axis in other.free and axis not in weight.free]
    if not words or not lanes or any(not isinstance(axis.extent, int) for axis in lanes):
        return None
    vector = max(lanes, key=stage.extent)
    longest = max(rows, key=stage.extent, default=None)
    return NestedSum(stage, product, weight, other, row, inner, words[0], vector, longest)


def _is_frozen(item: Term) -> bool:
    loads = [part.op for part in walk(item) if isinstance(part.op, Load)]
    return bool(loads) and all(op.tensor.frozen and not op.guards for op in loads)


def nested_value(body: Term, product: Term, total: Term, inner: frozenset[Axis]) -> Term | None:
    """What a block adds to the outer sum, given the `total` of its products; None where the body is no such sum."""
    if body is product:
        return total
    if not body.free & inner:
        return _times(body, math.prod(axis.extent for axis in inner if isinstance(axis.extent, int)))
    match body.op:
        case Add():
            sides = [nested_value(argument, product, total, inner) for argument in body.args]
            return None if sides[0] is None or sides[1] is None else add(sides[0], sides[1])
        case Mul():
            varying, other = body.args if body.args[0].free & inner else body.args[::-1]
            value = nested_value(varying, product, total, inner)
            return None if value is None or other.free & inner else multiply(other, value)
        case _:
            return None


def _times(item: Term, count: int) -> Term:
    """`count` times a term, its constant factors gathered."""
    constant = constant_of(item)
    if constant is not None:
        return number(constant * count, item.dtype)
    if isinstance(item.op, Mul):
        for place, other in ((1, 0), (0, 1)):
            if _has_constant(item.args[place]):
                return multiply(item.args[other], _times(item.args[place], count))
    return multiply(item, number(count, item.dtype))


def _has_constant(item: Term) -> bool:
    if constant_of(item) is not None:
        return True
    return isinstance(item.op, Mul) and any(_has_constant(argument) for argument in item.args)
