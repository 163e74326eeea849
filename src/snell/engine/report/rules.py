"""The rules that shaped a program: rewrite rules with their costs, products that were turned,
streams, and loops that masks bound; and all there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from snell.compiler.compile import Compilation
from snell.compiler.lowered import Lowered
from snell.loops.grouping import Group
from snell.loops.ir import Kernel, Loop, statements
from snell.loops.text import show_expression
from snell.rewrite.effects import Region, RuleEffect, rule_effects
from snell.rewrite.reassociate import Reassociation
from snell.rewrite.rules import RULES, Rule
from snell.symbolic import Expr

__all__ = ["RuleLine", "all_rules", "rule_lines", "rule_table"]


_BOUNDS = 3  # shown as examples


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One rule in one program: applications, places where it applied, costs in additions where they decide it.

    `before` and `after` are the cost of those places as written and as extracted; `without` is what extraction would
    cost there if this rule did not exist.  None where no cost of a term says it.
    """

    name: str
    tag: str
    applied: int
    places: str
    before: float | None
    after: float | None
    without: float | None
    note: str


def rule_lines(compilation: Compilation) -> tuple[RuleLine, ...]:
    """Rewrite rules first, those that bought most before the others; then turned products, streams and bounded loops."""
    regions = [Region((each.before.value,), each.report.matches) for each in compilation.rewritten]
    effects = rule_effects(regions, compilation.options.policy)
    lowered = compilation.lowered
    return (*map(_of_effect, effects), *_turns(lowered), *_streams(lowered), *_bounds(lowered))


def _of_effect(effect: RuleEffect) -> RuleLine:
    rule, count = effect.rule, effect.regions
    places = f"{count} definition{'s' if count != 1 else ''}"
    return RuleLine(
        rule.name, rule.tag.value, effect.matches, places, effect.before, effect.after, effect.without, rule.meaning
    )


def _turns(lowered: Lowered) -> Iterator[RuleLine]:
    """Costs are multiplications: of a program as large as this one, and not of terms."""
    turns = list(_reassociations(lowered))
    if not turns:
        return
    before, after = sum(turn.before for turn in turns), sum(turn.after for turn in turns)
    results = list(dict.fromkeys(turn.result.name for turn in turns))
    shown = ", ".join(results[:_BOUNDS]) + (", …" if len(results) > _BOUNDS else "")
    note = f"Products of products in the order of fewer multiplications, which the costs count: {shown}."
    places = f"{len(results)} definition{'s' if len(results) != 1 else ''}"
    yield RuleLine("reassociate", "refines", len(turns), places, before, after, before, note)


def _reassociations(lowered: Lowered) -> Iterator[Reassociation]:
    yield from lowered.reassociations
    for step in lowered.repetitions():
        yield from _reassociations(step.body)


def _streams(lowered: Lowered) -> Iterator[RuleLine]:
    groups = [group for group in _groups(lowered) if group.blocks is not None]
    if not groups:
        return
    notes: dict[str, None] = {}
    for group in groups:
        assert group.blocks is not None
        over = " ".join(f"{axis.extent}:{step}" for axis, step in group.blocks.levels)
        notes[f"{group.blocks.start} values a row carried over blocks {over}"] = None
    note = "Reductions that wait for each other run in one pass: " + "; ".join(notes) + "."
    yield RuleLine("stream", "refines", len(groups), _kernels(len(groups)), None, None, None, note)


def _bounds(lowered: Lowered) -> Iterator[RuleLine]:
    found = [(built.kernel, loop) for built in lowered.kernels for loop in _bounded(built.kernel)]
    if not found:
        return
    bounds = list(dict.fromkeys(_shown(loop) for _, loop in found))
    shown = "; ".join(bounds[:_BOUNDS]) + ("; …" if len(bounds) > _BOUNDS else "")
    count = sum(1 for built in lowered.kernels if any(_bounded(built.kernel)))
    note = f"A mask bounds a loop: {shown}."
    yield RuleLine("bounded loop", "refines", len(found), _kernels(count), None, None, None, note)


def _kernels(count: int) -> str:
    return f"{count} kernel{'s' if count != 1 else ''}"


def _bounded(kernel: Kernel) -> Iterator[Loop]:
    for phase in kernel.phases:
        for item in statements(phase.body):
            if isinstance(item, Loop) and any(_moves(bound) for bound in (item.lower, item.upper)):
                yield item


def _moves(bound: Expr | None) -> bool:
    """Whether a bound depends on where enclosing loops are: what a mask gives, and the passes of a long sum do not."""
    return bound is not None and not bound.is_constant


def _shown(loop: Loop) -> str:
    lower = "" if loop.lower is None else f"{show_expression(loop.lower)} ≤ "
    upper = "" if loop.upper is None else f" < {show_expression(loop.upper)}"
    return f"{lower}{loop.level.axis}{upper}"


def _groups(lowered: Lowered) -> Iterator[Group]:
    yield from lowered.groups
    for step in lowered.repetitions():
        yield from _groups(step.body)


def rule_table(lines: Sequence[RuleLine]) -> str:
    """The lines under headings; costs in additions."""
    heads = ("rule", "tag", "applied", "in", "cost before", "after", "without the rule", "meaning")
    cells = [heads, *(_cells(line) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numbers = (2, 4, 5, 6)
    aligned = (
        [cell.rjust(w) if k in numbers else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in cells
    )
    return "\n".join("  ".join(row).rstrip() for row in aligned)


def _cells(line: RuleLine) -> tuple[str, ...]:
    costs = ("–" if cost is None else f"{cost:.4g}" for cost in (line.before, line.after, line.without))
    return (line.name, line.tag, str(line.applied), line.places, *costs, line.note)


def all_rules(rules: Iterable[Rule] = RULES) -> str:
    """Every rule: tag, meaning, an example that fires and a near-miss that does not."""
    return "\n".join(_described(rule) for rule in rules)


def _described(rule: Rule) -> str:
    before, after = rule.example()
    fires = f"{before} → {after}" if before != after else str(before)
    return (
        f"{rule.name} ({rule.tag.value}): {rule.meaning}\n"
        f"    fires on     {fires}\n"
        f"    but not on   {rule.near_miss()}\n"
    )
