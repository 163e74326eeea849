"""What rules did to regions: how often each fired, and what extraction would cost without it.

Nothing is kept for this while programs are compiled: regions are explored again, once as they were and once for each
rule that fired, with the rule left out.  Costs are those of extraction (`rewrite.cost`), in additions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snell.rewrite.cost import Costs
from snell.rewrite.extract import least_cost
from snell.rewrite.policy import Policy
from snell.rewrite.rewrite import Workshop
from snell.rewrite.rules import RULES, Rule
from snell.rewrite.saturate import Budget
from snell.rewrite.term import Tensor, Term

__all__ = ["Region", "RuleEffect", "rule_effects"]


@dataclass(frozen=True, slots=True)
class Region:
    """The roots before rewriting, and the matches per rule that were counted when it was rewritten."""

    roots: tuple[Term, ...]
    matches: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RuleEffect:
    """A rule over the regions in which it fired: the cost before rewriting, after it, and after it without the rule."""

    rule: Rule
    matches: int
    regions: int
    before: float
    after: float
    without: float


def rule_effects(regions: Sequence[Region], policy: Policy) -> tuple[RuleEffect, ...]:
    """An effect for each rule that fired, those without which the program would cost most first."""
    allowed = [rule for rule in RULES if policy.allows(rule.tag)]
    workshop = Workshop(allowed)
    before = [_cost(workshop, region, Budget(iterations=0)) for region in regions]
    after = [_cost(workshop, region, Budget()) for region in regions]
    effects: list[RuleEffect] = []
    for rule in allowed:
        fired = [k for k, region in enumerate(regions) if region.matches.get(rule.name)]
        if not fired:
            continue
        others = Workshop([other for other in allowed if other is not rule])
        effects.append(
            RuleEffect(
                rule,
                sum(regions[k].matches[rule.name] for k in fired),
                len(fired),
                sum(before[k] for k in fired),
                sum(after[k] for k in fired),
                sum(_cost(others, regions[k], Budget()) for k in fired),
            )
        )
    return tuple(sorted(effects, key=lambda effect: (effect.after - effect.without, -effect.matches)))


def _cost(workshop: Workshop, region: Region, budget: Budget) -> float:
    with workshop.explored(region.roots, budget, _is_frozen) as (encoding, classes, _):
        return least_cost(classes, Costs(classes, encoding))


def _is_frozen(tensor: Tensor) -> bool:
    return tensor.frozen
