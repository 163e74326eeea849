"""Every rewrite rule fires on its example, not on its near-miss, and every term extracted from the example is equal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.rewrite.judge import assert_equal

from snell.rewrite.cost import Costs
from snell.rewrite.extract import candidates
from snell.rewrite.policy import Policy
from snell.rewrite.rewrite import Workshop
from snell.rewrite.rules import RULES, Rule, Tag
from snell.rewrite.saturate import Budget, StopReason
from snell.rewrite.term import Term
from snell.symbolic import Dim

SIZES = {Dim("seq", min=0, max=64): 7}


@pytest.fixture(scope="module")
def workshop() -> Workshop:
    return Workshop(RULES)


def matches(workshop: Workshop, rule: Rule, roots: Sequence[Term]) -> tuple[int, bool]:
    """How often the rule fired, and whether all roots ended in one class."""
    with workshop.explored(roots, Budget(), lambda tensor: tensor.frozen) as (_, classes, saturation):
        assert saturation.stop_reason is StopReason.SATURATED
        return saturation.matches.get(rule.name, 0), len(set(classes.roots)) == 1


def test_names_of_rules_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_each_policy_includes_the_ones_before_it() -> None:
    allowed = [{tag for tag in Tag if policy.allows(tag)} for policy in (Policy.STRICT, Policy.DEFAULT, Policy.FAST)]
    assert allowed == [{Tag.EXACT}, {Tag.EXACT, Tag.REFINES}, set(Tag)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_fires_on_its_example_and_proves_the_result_equal(workshop: Workshop, rule: Rule) -> None:
    fired, equal = matches(workshop, rule, rule.example())
    assert fired > 0
    assert equal


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_does_not_fire_on_its_near_miss(workshop: Workshop, rule: Rule) -> None:
    assert matches(workshop, rule, [rule.near_miss()])[0] == 0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_extraction_of_an_example_computes_the_same(workshop: Workshop, rule: Rule) -> None:
    before, after = rule.example()
    assert_equal(before, after, 1, SIZES)
    with workshop.explored([before], Budget(), lambda tensor: tensor.frozen) as (encoding, classes, _):
        found = list(candidates(classes, encoding, Costs(classes, encoding), 8, seed=3))
    for k, (other,) in enumerate(found):
        assert_equal(before, other, k, SIZES)
