"""Codes are packed in planes as narrow as they are, and taken out of them again as they were."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from snell.dtypes import f32, i8, u1, u2, u4, u8
from snell.graph.primitives import Add, Mod, Mul
from snell.loops.code_planes import grouped_products
from snell.loops.ir import Accumulator, Combine, read
from snell.loops.nested import NestedSum
from snell.loops.stage import Partial, Stage
from snell.rewrite.arithmetic import add, multiply
from snell.rewrite.term import Cast, FloorDivide, Load, Number, Tensor, Term, cast, load, number, term
from snell.symbolic import Axis, Expr, as_expr
from snell.targets import BYTE_QUADS

LANE = Axis("n", 3)
WIDTHS = {1: u1, 2: u2, 4: u4, 8: u8}


@dataclass(frozen=True)
class Block:
    """A block of codes of so many bits: `along` the last axis in words, as often as the axes `across` say."""

    bits: int
    along: int
    across: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return self.along * math.prod(self.across)


def nested(block: Block) -> NestedSum:
    """The sum of a block's codes, put together from fields as files have them, times a row."""
    inner = tuple(Axis(f"k{number}", extent) for number, extent in enumerate((*block.across, block.along)))
    place, stride = as_expr(0), 1
    for axis in reversed(inner):
        assert isinstance(axis.extent, int)
        place, stride = place + as_expr(axis) * stride, stride * axis.extent
    code, low = number(0, f32), 0
    for width, dtype in sorted(WIDTHS.items(), reverse=True):
        if block.bits & width:
            field = load(Tensor(f"bits{low}", (3, block.size), dtype, frozen=True), (as_expr(LANE), place))
            code, low = add(code, multiply(cast(field, f32), number(1 << low, f32))), low + width
    weight, row = term(Cast(), (code,), u8), load(Tensor("x", (block.size,), i8), (place,))
    product = term(Mul(), (cast(weight, f32), cast(row, f32)), f32)
    accumulator = Accumulator("acc", Combine.SUM, f32, (LANE,))
    stage = Stage(
        Tensor("y", (3,), f32), (LANE,), (as_expr(LANE),), inner, (Partial(accumulator, product),), read(accumulator)
    )
    return NestedSum(stage, product, weight, row, BYTE_QUADS, inner, inner[-1], LANE, None)


class Evaluator:
    """Values of terms of whole numbers; what is packed is worked out when it is read."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = dict(arrays)
        self.packed_bytes = 0

    def packed(self, item: Term, axis: Axis) -> Term:
        axes = [axis, *sorted(item.free - {axis}, key=str)]
        shape = tuple(int(str(each.extent)) for each in axes)
        values = [self.value(item, dict(zip(axes, at, strict=True))) for at in itertools.product(*map(range, shape))]
        assert min(values) >= 0
        assert max(values) < 256
        name = f"packed{len(self.arrays)}"
        self.arrays[name] = np.array(values).reshape(shape)
        self.packed_bytes += len(values)
        return load(Tensor(name, shape, u8, frozen=True), tuple(map(as_expr, axes)))

    def value(self, item: Term, at: Mapping[Axis, int]) -> int:
        match item.op:
            case Load():
                places: dict[Axis, Expr] = {axis: as_expr(k) for axis, k in at.items()}
                indices = (index.substitute(places) for index in item.op.indices)  # type: ignore[arg-type]
                return int(self.arrays[item.op.tensor.name][tuple(int(str(index)) for index in indices)])
            case Number():
                return int(item.op.value)
            case Cast():
                return self.value(item.args[0], at)
            case _:
                a, b = (self.value(argument, at) for argument in item.args)
                return {Add: a + b, Mul: a * b, FloorDivide: a // max(b, 1), Mod: a % max(b, 1)}[type(item.op)]


def arrays(block: Block) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The fields and the row, and the codes that the fields make."""
    random = np.random.default_rng(block.bits)
    found: dict[str, np.ndarray] = {"x": random.integers(-127, 128, block.size)}
    codes, low = np.zeros((3, block.size), np.int64), 0
    for width in sorted(WIDTHS, reverse=True):
        if block.bits & width:
            found[f"bits{low}"] = random.integers(0, 1 << width, (3, block.size))
            codes, low = codes + (found[f"bits{low}"] << low), low + width
    return found, codes


# Blocks of files are cut where their fields are: 32 as two halves of 16, or of two bytes of high bits each.
BLOCKS = [
    Block(bits, along, across)
    for bits in range(1, 9)
    for along, across in ((32, ()), (16, ()), (16, (2,)), (8, (2, 2)), (64, ()))
]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_the_products_of_unpacked_codes_add_up_to_those_of_the_codes(block: Block) -> None:
    given, codes = arrays(block)
    evaluator = Evaluator(given)
    made = grouped_products(nested(block), evaluator.packed)
    extents = [int(str(axis.extent)) for axis in made.axes]
    for lane in range(3):
        total = sum(
            evaluator.value(product, {LANE: lane, **dict(zip(made.axes, at, strict=True))})
            for at in itertools.product(*map(range, extents))
            for product in made.products
        )
        assert total == codes[lane] @ given["x"]


@pytest.mark.parametrize(
    ("block", "bits"),
    [
        (Block(4, 32), 4),
        (Block(2, 16), 2),
        (Block(5, 32), 5),
        (Block(5, 16, (2,)), 5),
        (Block(5, 8, (2, 2)), 5),
        (Block(6, 16), 6),
        (Block(6, 32), 6),
        (Block(3, 32), 3),
        (Block(3, 16), 4),
        (Block(5, 16), 8),
        (Block(7, 64), 8),
        (Block(8, 32), 8),
    ],
    ids=str,
)
def test_a_code_takes_so_many_bits(block: Block, bits: int) -> None:
    evaluator = Evaluator(arrays(block)[0])
    grouped_products(nested(block), evaluator.packed)
    assert evaluator.packed_bytes * 8 == 3 * block.size * bits
