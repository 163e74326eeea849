"""Selection: the first few of an order, without sorting the rest.

The axis is cut into blocks of about the root of its extent.  Each block keeps its first element; a step takes the first
of these and looks for the block's next one.  k steps cost O(n + k·√n).
"""

from __future__ import annotations

import math

from snell.dtypes import i32
from snell.frontend.ops.comparison import equal, less, logical_and, logical_or, where
from snell.frontend.ops.creation import iota
from snell.frontend.ops.indexing import take_along_axis
from snell.frontend.ops.joining import pad
from snell.frontend.ops.movement import movedim, reshape, squeeze
from snell.frontend.ops.reduction import min as min_of
from snell.frontend.scan import scan
from snell.frontend.shapes import known_size
from snell.frontend.tensor import Tensor

__all__ = ["first_places"]

_Pair = tuple[Tensor, Tensor]
"""Keys and the i32 order that breaks their ties; no two elements have both in common."""


def first_places(keys: Tensor, order: Tensor, count: int, greatest: float) -> Tensor:
    """(…, n) → (…, count): the orders of the `count` least elements by (key, order), the least first.

    `keys` hold no NaN and nothing above `greatest`; an element's `order` is its index, or that and a multiple of n.
    """
    extent = known_size(keys.shape[-1], "selection")
    width = max(1, math.isqrt(extent))
    blocks = -(-extent // width)
    beyond = order.dtype.range[1]
    keys = _in_blocks(keys, blocks, width, greatest)
    order = _in_blocks(order, blocks, width, beyond)
    number = iota(blocks, i32, trace=keys.trace)

    def step(firsts: _Pair, _: None) -> tuple[_Pair, Tensor]:
        key, place = _least(firsts, greatest, beyond)
        block = _block_of(place, extent, width)
        rest = tuple(_row(x, block) for x in (keys, order))
        following = _least((rest[0], rest[1]), greatest, beyond, after=(key, place))
        is_taken = equal(number, block)
        return (where(is_taken, following[0], firsts[0]), where(is_taken, following[1], firsts[1])), place

    firsts = _least((keys, order), greatest, beyond)
    _, places = scan(step, (squeeze(firsts[0], -1), squeeze(firsts[1], -1)), length=count)
    return movedim(squeeze(places, -1), 0, -1)


def _in_blocks(x: Tensor, blocks: int, width: int, value: float) -> Tensor:
    """(…, n) → (…, blocks, width), filled up with `value`."""
    extra = blocks * width - known_size(x.shape[-1], "selection")
    filled = pad(x, [(0, extra)], value) if extra else x
    return reshape(filled, [*x.shape[:-1], blocks, width])


def _least(pair: _Pair, greatest: float, beyond: float, after: _Pair | None = None) -> _Pair:
    """The least element of the last axis, which stays with extent 1; of those after another one where one is given."""
    keys, order = pair
    if after is not None:
        key, place = after
        is_after = logical_or(less(key, keys), logical_and(equal(key, keys), less(place, order)))
        keys, order = where(is_after, keys, greatest), where(is_after, order, beyond)
    least = min_of(keys, -1, keepdims=True)
    return least, min_of(where(equal(keys, least), order, beyond), -1, keepdims=True)


def _block_of(place: Tensor, extent: int, width: int) -> Tensor:
    """The block in which an element lies whose order is `place`."""
    index = where(less(place, 0), place + extent, where(less(place, extent), place, place - extent))
    return index // width


def _row(x: Tensor, block: Tensor) -> Tensor:
    """(…, blocks, width) and (…, 1) → (…, width): one block of each."""
    return squeeze(take_along_axis(x, reshape(block, [*block.shape, 1]), -2, mode="zero"), -2)
