"""Rewriting derives the programs it is for, keeps out of the others, and reports how it went."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from fractions import Fraction

import pytest
from tests.rewrite.judge import assert_equal

from snell.dtypes import DType, f16, f32, i8, u4, u8
from snell.graph.primitives import Mul, ScalarFunction, Sqrt
from snell.rewrite.policy import Policy
from snell.rewrite.rewrite import Workshop, equal_terms, rewrite_terms
from snell.rewrite.rules import LOG2_E, RULES, Rule, Tag
from snell.rewrite.rules.notation import (
    I,
    J,
    K,
    add,
    apply,
    exp2,
    less,
    max_,
    maximum,
    mul,
    negate,
    number,
    recip,
    select,
    subtract,
    sum_,
    tensor,
    x,
    y,
)  # fmt: skip
from snell.rewrite.rules.rule import rule
from snell.rewrite.saturate import Budget, StopReason
from snell.rewrite.term import Cast, Divide, Load, Max, Not, SelectElse, Sum, Term, cast, term, walk
from snell.symbolic import Axis, Dim

ROW, COLUMN, WITHIN, BLOCK, SUB = Axis("i", 6), Axis("n", 40), Axis("k", 32), Axis("b", 8), Axis("u", 4)


def best(root: Term, policy: Policy = Policy.DEFAULT) -> Term:
    """The rewritten term, after every extraction was compared with the original."""
    for k, (other,) in enumerate(equal_terms([root], 8, policy=policy)):
        assert_equal(root, other, k)
    result = rewrite_terms([root], policy)
    assert result.report.stop_reason is StopReason.SATURATED
    return result.roots[0]


def field(name: str, *axes: Axis, dtype: DType) -> Term:
    return cast(tensor(name, *axes, dtype=dtype), f32)


def activations(*axes: Axis) -> Term:
    return mul(field("dx", ROW, BLOCK, dtype=f16), field("qx", ROW, BLOCK, *axes, WITHIN, dtype=i8))


def inner_sums(root: Term) -> list[str]:
    """The sums over one block, as text."""
    sums = [item for item in walk(root) if isinstance(item.op, Sum) and WITHIN in item.op.axes]
    return sorted(f"{item.dtype}: {item}" for item in sums)


def test_a_q8_0_dot_is_an_integer_sum_in_each_block_with_both_scales_outside() -> None:
    weights = mul(field("d", COLUMN, BLOCK, dtype=f16), field("q", COLUMN, BLOCK, WITHIN, dtype=i8))
    found = best(sum_(mul(weights, activations()), BLOCK, WITHIN))
    assert inner_sums(found) == ["i32: Sum{k}(Mul(i32(q[n, b, k]), i32(qx[i, b, k])))"]
    assert isinstance(found.op, Sum)
    assert found.op.axes == (BLOCK,)


def test_a_q8_0_dot_with_float_activations_has_the_scale_outside_each_block() -> None:
    weights = mul(field("d", COLUMN, BLOCK, dtype=f16), field("q", COLUMN, BLOCK, WITHIN, dtype=i8))
    found = best(sum_(mul(weights, tensor("x", ROW, BLOCK, WITHIN)), BLOCK, WITHIN))
    assert inner_sums(found) == ["f32: Sum{k}(Mul(f32(q[n, b, k]), x[i, b, k]))"]


def test_a_q4_0_zero_point_becomes_a_multiple_of_the_sum_of_activations() -> None:
    codes = add(field("q", COLUMN, BLOCK, WITHIN, dtype=u4), number(-8))
    found = best(sum_(mul(mul(field("d", COLUMN, BLOCK, dtype=f16), codes), activations()), BLOCK, WITHIN))
    assert inner_sums(found) == [
        "i32: Sum{k}(Mul(i32(q[n, b, k]), i32(qx[i, b, k])))", "i32: Sum{k}(i32(qx[i, b, k]))",
    ]  # fmt: skip


def test_a_q4_1_dot_is_one_pass_over_blocks_with_two_integer_sums() -> None:
    scaled = mul(field("d", COLUMN, BLOCK, dtype=f16), field("q", COLUMN, BLOCK, WITHIN, dtype=u4))
    found = best(sum_(mul(add(scaled, field("m", COLUMN, BLOCK, dtype=f16)), activations()), BLOCK, WITHIN))
    assert inner_sums(found) == [
        "i32: Sum{k}(Mul(i32(q[n, b, k]), i32(qx[i, b, k])))", "i32: Sum{k}(i32(qx[i, b, k]))",
    ]  # fmt: skip
    assert [item.op.axes for item in walk(found) if isinstance(item.op, Sum) and BLOCK in item.op.axes] == [(BLOCK,)]


def test_a_k_quant_keeps_its_scales_of_scales_in_integers() -> None:
    scale = mul(field("d", COLUMN, BLOCK, dtype=f16), field("s", COLUMN, BLOCK, SUB, dtype=u8))
    least = mul(field("dm", COLUMN, BLOCK, dtype=f16), field("m", COLUMN, BLOCK, SUB, dtype=u8))
    weights = subtract(mul(scale, field("q", COLUMN, BLOCK, SUB, WITHIN, dtype=u4)), least)
    found = best(sum_(mul(weights, activations(SUB)), BLOCK, SUB, WITHIN))
    sums = [item for item in walk(found) if isinstance(item.op, Sum) and item.op.axes == (SUB,)]
    assert [item.dtype.name for item in sums] == ["i32", "i32"]


def rms(axis: Axis) -> Term:
    square = sum_(mul(tensor("x", ROW, axis), tensor("x", ROW, axis)), axis)
    return recip(apply(Sqrt(), add(mul(square, number(Fraction(1, 32))), number(Fraction(1, 100000)))))


def test_the_scale_of_rms_norm_leaves_the_product_that_follows() -> None:
    normal = mul(mul(tensor("x", ROW, WITHIN), rms(WITHIN)), tensor("g", WITHIN))
    found = best(sum_(mul(normal, tensor("w", WITHIN, COLUMN)), WITHIN))
    sums = [item for item in walk(found) if isinstance(item.op, Sum)]
    assert all(not any(isinstance(inner.op, Sum) for inner in walk(item.args[0])) for item in sums)
    assert len(sums) == 2


def softmax(axis: Axis) -> Term:
    row = tensor("x", ROW, axis)
    shifted = exp2(mul(add(row, negate(max_(row, axis))), number(LOG2_E)))
    return mul(shifted, recip(sum_(shifted, axis)))


def test_softmax_keeps_its_shape_and_uses_the_accurate_exp() -> None:
    found = best(softmax(WITHIN))
    functions = {item.op.name for item in walk(found) if isinstance(item.op, ScalarFunction)}
    assert functions == {"exp"}
    assert [type(item.op) for item in walk(found) if isinstance(item.op, (Sum, Max))] == [Max, Sum]


def test_the_divisor_of_softmax_leaves_the_product_with_values() -> None:
    found = best(sum_(mul(softmax(WITHIN), tensor("v", WITHIN, COLUMN)), WITHIN))
    assert isinstance(found.op, (Mul, Divide))


def test_a_centre_is_not_distributed_over_a_sum_unless_the_policy_is_fast() -> None:
    row = tensor("x", ROW, WITHIN)
    mean = mul(sum_(row, WITHIN), number(Fraction(1, 32)))
    root = sum_(mul(add(row, negate(mean)), tensor("w", WITHIN, COLUMN)), WITHIN)
    assert "distribute" not in rewrite_terms([root]).report.matches
    assert rewrite_terms([root], Policy.FAST).report.matches["distribute"] > 0
    assert_equal(root, best(root, Policy.FAST))


def where(c: Term, a: Term, b: Term) -> Term:
    return add(select(c, a), select(term(Not(), (c,), c.dtype), b))


def test_where_becomes_a_select_else_and_relu_a_maximum() -> None:
    assert isinstance(best(where(less(x(I), y(J)), x(I), y(J))).op, SelectElse)
    relu = best(where(less(x(I, J), number(0)), number(0), x(I, J)))
    assert relu is maximum(x(I, J), number(0)) or relu is maximum(number(0), x(I, J))


def test_a_quotient_is_one_division_where_the_divisor_varies_as_much_as_the_result() -> None:
    assert isinstance(best(mul(x(I, J), recip(y(I, J)))).op, Divide)
    assert isinstance(best(mul(x(I, J), recip(y(I)))).op, Mul)


def test_a_sum_that_may_be_empty_keeps_its_factors_inside() -> None:
    time = Axis("s", Dim("seq", min=0, max=64) + 0)
    root = sum_(mul(x(time), y(I)), time)
    assert "factor" not in rewrite_terms([root]).report.matches


def test_an_explicit_down_cast_is_kept() -> None:
    assert [item.dtype for item in walk(best(cast(cast(x(I), f16), f32))) if isinstance(item.op, Cast)] == [f16, f32]


def test_roots_share_what_they_have_in_common() -> None:
    total = sum_(mul(x(I, J), y(J)), J)
    first, second = rewrite_terms([mul(total, number(2)), add(total, number(1))]).roots
    assert len({item for item in walk(first, second) if isinstance(item.op, Sum)}) == 1


def test_leaves_and_single_operations_are_returned_as_they_are() -> None:
    root = mul(x(I), y(J))
    result = rewrite_terms([root, x(I)])
    assert result.roots == (root, x(I))
    assert result.report.iterations == 0


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(iterations=2), StopReason.ITERATIONS),
        (Budget(terms=20), StopReason.NODES),
        (Budget(seconds=0.0), StopReason.TIME),
    ],
)
def test_a_spent_budget_gives_the_best_found_and_says_why(budget: Budget, reason: StopReason) -> None:
    scaled = mul(field("d", COLUMN, BLOCK, dtype=f16), field("q", COLUMN, BLOCK, WITHIN, dtype=u4))
    root = sum_(mul(add(scaled, field("m", COLUMN, BLOCK, dtype=f16)), activations()), BLOCK, WITHIN)
    result = rewrite_terms([root], budget=budget)
    assert result.report.stop_reason is reason
    assert_equal(root, result.roots[0])


def test_a_rule_that_mixes_types_is_reported_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = rule("wrong", Tag.EXACT, "Wrong.", "(= t (Cast d a))", "(union t a)", lambda: (x(I), x(I)), lambda: x(I))
    broken = Workshop([*RULES, wrong])
    monkeypatch.setattr("snell.rewrite.rewrite._WORKSHOPS", _Fixed(broken))
    root = add(cast(x(I, dtype=f16), f32), y(I))
    result = rewrite_terms([root])
    assert result.roots == (root,)
    assert result.report.stop_reason is StopReason.FAILED
    assert "dtype" in result.report.failure


class _Fixed:
    """Gives the same workshop for every policy."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def of(self, policy: Policy) -> Workshop:
        del policy
        return self._workshop


def test_the_report_names_the_rules_that_matched() -> None:
    report = rewrite_terms([sum_(mul(x(I), y(I, J)), J)]).report
    assert report.matches["factor"] > 0
    assert re.match(r"saturated after \d+ iterations; \d+ terms, .* ms; .*factor \d", str(report))
    names = {known.name for known in RULES if isinstance(known, Rule)}
    assert set(report.matches) <= names


def test_threads_each_have_an_e_graph_of_their_own() -> None:
    root, found = sum_(mul(x(I), y(I, J)), J), []
    thread = threading.Thread(target=lambda: found.append(rewrite_terms([root]).roots[0]))
    thread.start()
    thread.join()
    assert found == [rewrite_terms([root]).roots[0]]


PROGRAM = """
from tests.rewrite.test_rewrite import softmax, sum_, mul, tensor, WITHIN, COLUMN
from snell.rewrite.rewrite import rewrite_terms
import sys
sys.stdout.write(repr(rewrite_terms([sum_(mul(softmax(WITHIN), tensor("v", WITHIN, COLUMN)), WITHIN)]).roots))
"""


def test_the_result_does_not_depend_on_hash_seeds() -> None:
    results: set[str] = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        results.add(run.stdout)
    assert len(results) == 1


def test_loads_are_never_invented() -> None:
    root = sum_(mul(mul(x(I), y(I, J)), tensor("z", J, K)), J)
    loads = {item for item in walk(root) if isinstance(item.op, Load)}
    for (other,) in equal_terms([root], 8):
        assert {item for item in walk(other) if isinstance(item.op, Load)} <= loads
