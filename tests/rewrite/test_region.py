"""Regions that differ only in names are rewritten once."""

from __future__ import annotations

from dataclasses import replace

from tests.rewrite.judge import assert_equal

from snell.dtypes import f32, i64
from snell.graph.primitives import Sqrt
from snell.rewrite.region import RegionCache, abstract
from snell.rewrite.rules.notation import add, apply, mul, recip, sum_
from snell.rewrite.term import Tensor, Term, load, opaque
from snell.symbolic import Axis, Dim, as_expr


def norm(layer: int, width: int = 8, frozen: bool = True) -> Term:
    """A product after a norm, over names of its own."""
    row, inner, column = Axis(f"i{layer}", 4), Axis(f"j{layer}", width), Axis(f"n{layer}", 6)
    held = Tensor(f"x{layer}", (4, width), f32)
    weights = Tensor(f"w{layer}", (width, 6), f32, frozen=frozen)
    value = load(held, (row + 0, inner + 0))
    scale = recip(apply(Sqrt(), sum_(mul(value, value), inner)))
    return sum_(mul(mul(value, scale), load(weights, (inner + 0, column + 0))), inner)


def test_thirty_equal_layers_are_rewritten_once() -> None:
    cache = RegionCache()
    for layer in range(30):
        root = norm(layer)
        (found,) = cache.rewrite([root]).roots
        assert_equal(root, found, layer)
        assert found is not root
    assert cache.hits == 29


def test_shapes_and_frozen_marks_tell_regions_apart() -> None:
    assert abstract([norm(0)]).roots == abstract([norm(1)]).roots
    assert abstract([norm(0)]).roots != abstract([norm(1, width=16)]).roots
    assert abstract([norm(0)]).roots != abstract([norm(1, frozen=False)]).roots


def test_one_tensor_read_twice_is_not_two_tensors() -> None:
    axis = Axis("i", 4)
    a, b = (load(Tensor(name, (4,), f32), (axis + 0,)) for name in "ab")
    assert abstract([add(a, a)]).roots != abstract([add(a, b)]).roots


def test_names_come_back_also_inside_loaded_indices() -> None:
    row, column = Axis("i", 4), Axis("j", 3)
    place = load(Tensor("ids", (4,), i64), (row + 0,))
    table = Tensor("table", (50, 3), f32)
    root = mul(load(table, (as_expr(opaque(place, 0, 49)), column + 0)), load(Tensor("g", (3,), f32), (column + 0,)))
    region = abstract([root])
    assert "ids" not in repr(region.roots)
    assert region.concrete(region.roots) == (root,)


def test_run_time_sizes_keep_their_names() -> None:
    sequence = Dim("seq", max=128)
    axis = Axis("s", sequence + 0)
    held = Tensor("x", (sequence + 0,), f32)
    (root,) = abstract([sum_(load(held, (axis + 0,)), axis)]).roots
    (other,) = abstract([sum_(load(replace(held, name="y"), (axis + 0,)), axis)]).roots
    assert root is other
    assert "seq" in str(root.op.axes[0].extent)  # type: ignore[union-attr]
