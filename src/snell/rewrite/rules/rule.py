"""A rewrite rule as data: its name, tag, meaning, egglog text, an example that fires and a near-miss that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from snell.rewrite.policy import Tag
from snell.rewrite.term import Term

__all__ = ["Example", "Rule", "Tag", "rewrite", "rule"]


Example = Callable[[], tuple[Term, Term]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`example` builds (before, after): the rule fires on the first and its class then holds the second.

    `near_miss` builds a term that looks alike and on which the rule must not fire.  Tests run both for every rule and
    compare every extraction of the example with it on random data.
    """

    name: str
    tag: Tag
    meaning: str
    text: str
    example: Example
    near_miss: Callable[[], Term]


def rule(
    name: str, tag: Tag, meaning: str, conditions: str, actions: str, example: Example, near_miss: Callable[[], Term]
) -> Rule:
    """A rule from its conditions and actions; `meaning` is one sentence for people."""
    text = f'(rule ({conditions}) ({actions}) :ruleset algebra :name "{name}")'
    return Rule(name, tag, meaning, text, example, near_miss)


def rewrite(
    name: str, tag: Tag, meaning: str, before: str, after: str, example: Example, near_miss: Callable[[], Term], *,
    where: str = "", replaces: bool = False,
) -> Rule:  # fmt: skip
    """A rule that equates two patterns; with `replaces` the left one no longer takes part in matching."""
    forget = f" (subsume {before})" if replaces else ""
    return rule(name, tag, meaning, f"(= t {before}) {where}", f"(union t {after}){forget}", example, near_miss)
