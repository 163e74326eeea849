"""Index algebra: simplification never changes a value, division is floor division, bounds and proofs are sound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snell.symbolic import Axis, Dim, Expr, as_expr

DIMS = (Dim("n", min=1, max=9), Dim("m", min=2, max=12, multiple=2))
AXES = (Axis("i", 4), Axis("j", 12), Axis("k", as_expr(DIMS[0])))
Pair = tuple[Expr, Any]


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> Pair:
    """An expression and the same formula as a function of its atoms' values."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        atom = draw(st.one_of(st.integers(-20, 20), st.sampled_from([*DIMS, *AXES])))
        return as_expr(atom), (lambda values: atom if isinstance(atom, int) else values[atom])
    kind = draw(st.sampled_from(["+", "-", "*", "//", "%"]))
    left, evaluate = draw(expressions(depth - 1))
    if kind in ("//", "%"):
        divisor = draw(st.one_of(st.sampled_from([1, 2, 3, 4, 6, 12]), st.sampled_from([*DIMS, DIMS[1] // 2])))

        def number(values: dict[Any, int]) -> int:
            return divisor if isinstance(divisor, int) else as_expr(divisor).evaluate(values)

        if kind == "//":
            return left // divisor, lambda values: evaluate(values) // number(values)
        return left % divisor, lambda values: evaluate(values) % number(values)
    right, other = draw(expressions(depth - 2 if depth > 1 else 0))
    if kind == "+":
        return left + right, lambda values: evaluate(values) + other(values)
    if kind == "-":
        return left - right, lambda values: evaluate(values) - other(values)
    return left * right, lambda values: evaluate(values) * other(values)


@st.composite
def values(draw: st.DrawFn) -> dict[Any, int]:
    n, m = draw(st.integers(1, 9)), 2 * draw(st.integers(1, 6))
    return {DIMS[0]: n, DIMS[1]: m, AXES[0]: draw(st.integers(0, 3)), AXES[1]: draw(st.integers(0, 11)),
            AXES[2]: draw(st.integers(0, n - 1))}  # fmt: skip


@given(expressions(), values())
@settings(max_examples=400, deadline=None)
def test_simplification_keeps_the_value(pair: Pair, at: dict[Any, int]) -> None:
    expression, formula = pair
    assert expression.evaluate(at) == formula(at)


@given(expressions(), values())
@settings(max_examples=300, deadline=None)
def test_substitution_agrees_with_evaluation(pair: Pair, at: dict[Any, int]) -> None:
    expression, formula = pair
    assert expression.substitute({atom: at[atom] for atom in (*DIMS, *AXES)}) == formula(at)
    moved = expression.substitute({AXES[1]: 3 * AXES[0] + 2})
    assert moved.evaluate(at) == formula({**at, AXES[1]: 3 * at[AXES[0]] + 2})


@given(expressions(), values())
@settings(max_examples=300, deadline=None)
def test_bounds_hold_every_value_and_proofs_are_true(pair: Pair, at: dict[Any, int]) -> None:
    expression, formula = pair
    low, high = expression.bounds()
    assert low <= formula(at) <= high
    if expression.is_non_negative():
        assert formula(at) >= 0


@given(expressions(), expressions())
@settings(max_examples=200, deadline=None)
def test_equal_polynomials_are_the_same_value(a: Pair, b: Pair) -> None:
    assert a[0] + b[0] == b[0] + a[0]
    assert hash(a[0] * b[0]) == hash(b[0] * a[0])
    assert (a[0] + b[0]) - b[0] == a[0]


@pytest.mark.parametrize(("numerator", "divisor"), [(-7, 2), (7, 2), (-1, 3), (0, 5), (-12, 4)])
def test_division_has_floor_semantics(numerator: int, divisor: int) -> None:
    assert as_expr(numerator) // divisor == numerator // divisor
    assert as_expr(numerator) % divisor == numerator % divisor


def test_a_split_index_peels_back() -> None:
    outer, inner = Axis("a", 5), Axis("b", 8)
    flat = 8 * outer + inner
    assert flat // 8 == as_expr(outer)
    assert flat % 8 == as_expr(inner)
    assert flat // 4 == 2 * outer + inner // 4
    assert (flat // 2) // 4 == as_expr(outer)
    assert (flat % 8) % 4 == inner % 4


def test_a_symbolic_stride_peels_back() -> None:
    seq = Dim("seq", min=0, max=128)
    head, position = Axis("h", 4), Axis("p", as_expr(seq))
    flat = seq * head + position
    assert flat // seq == as_expr(head)
    assert flat % seq == as_expr(position)


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        as_expr(Axis("i", 4)) // 0


def test_a_multiple_divides_without_remainder() -> None:
    n, m = Dim("n", multiple=8), Dim("m", min=0, multiple=6)
    assert n % 8 == 0
    assert n % 4 == 0
    assert (n // 8) * 8 == as_expr(n)
    assert 2 * (n // 2) == as_expr(n)
    assert n // 2 == 4 * (n // 8)
    assert (n // 8) // 2 == n // 16
    assert (n * m) // 48 == (n // 8) * (m // 6)
    assert (n // 8) * m == (m // 6) * (n // 8) * 6
    assert as_expr(n).bounds() == (8, 1 << 31)
    assert (n // 8 - 1).is_non_negative()
    assert n // 3 != as_expr(n)


def test_sizes_leave_operators_with_other_kinds_to_them() -> None:
    class Foreign:
        def __radd__(self, other: object) -> str:
            return f"{other} + foreign"

        def __rfloordiv__(self, other: object) -> str:
            return f"{other} // foreign"

    n = Dim("n")
    assert n + Foreign() == "n + foreign"
    assert (2 * n) // Foreign() == "2*n // foreign"
    assert 7 // as_expr(2) == 3
    assert 7 % as_expr(4) == 3
    with pytest.raises(TypeError):
        n * 0.5  # type: ignore[operator]
    with pytest.raises(TypeError):
        np.arange(3) + n  # type: ignore[operator]
