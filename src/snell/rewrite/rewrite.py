"""The entry to rewriting: equal, cheaper terms for a region's roots.

    rewrite_terms(roots) -> Rewritten(roots, report)

Never wrong and never an error: a budget that runs out gives the best term found so far, and a defect inside (a rule
that asserts two types of one class, say) leaves the region as it was, with the reason in the report.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from snell.errors import CompileError
from snell.rewrite.classes import Classes, read_classes
from snell.rewrite.cost import Costs
from snell.rewrite.egraph import EGraph
from snell.rewrite.extract import candidates, extract
from snell.rewrite.facts import FACTS
from snell.rewrite.language import DECLARATIONS, Encoding, encode
from snell.rewrite.policy import Policy
from snell.rewrite.rules import RULES, Rule
from snell.rewrite.saturate import Budget, Saturation, StopReason, saturate
from snell.rewrite.term import Index, Load, Number, Reduction, Tensor, Term, children

__all__ = ["RewriteReport", "Rewritten", "Workshop", "equal_terms", "rewrite_terms"]


@dataclass(frozen=True, slots=True)
class RewriteReport:
    """What happened to a region: why it stopped, how much work it was, matches per rule, the failure if any."""

    stop_reason: StopReason
    iterations: int = 0
    terms: int = 0
    seconds: float = 0.0
    matches: Mapping[str, int] = field(default_factory=dict[str, int])
    failure: str = ""

    def __str__(self) -> str:
        fired = ", ".join(f"{name} {n}" for name, n in sorted(self.matches.items()))
        head = f"{self.stop_reason.value} after {self.iterations} iterations"
        work = f"{self.terms} terms, {1e3 * self.seconds:.1f} ms"
        return "; ".join(part for part in (head, work, self.failure, fired) if part)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The new roots, in the order of the old ones, and the report."""

    roots: tuple[Term, ...]
    report: RewriteReport


IsFrozen = Callable[[Tensor], bool]


def _marked_frozen(tensor: Tensor) -> bool:
    return tensor.frozen


class Workshop:
    """An e-graph with a set of rules loaded, used for one region after another."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._names = frozenset(rule.name for rule in rules)
        self._egraph = EGraph("\n".join([DECLARATIONS, FACTS, *(rule.text for rule in rules)]))

    @contextmanager
    def explored(
        self, roots: Sequence[Term], budget: Budget, is_frozen: IsFrozen
    ) -> Generator[tuple[Encoding, Classes, Saturation]]:
        """The region's classes after saturation; the e-graph forgets the region afterwards."""
        encoding = encode(roots)
        try:
            self._egraph.begin(encoding.text)
            saturation = saturate(self._egraph, budget, self._names)
            yield encoding, read_classes(self._egraph, encoding, lambda atom: _is_constant(atom, is_frozen)), saturation
        finally:
            self._egraph.end()


class _Workshops(threading.local):
    """Workshops by process and policy; an egglog e-graph may only be used by the thread that made it."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, Policy], Workshop] = {}

    def of(self, policy: Policy) -> Workshop:
        key = (os.getpid(), policy)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Workshop([rule for rule in RULES if policy.allows(rule.tag)])
        return made


_WORKSHOPS = _Workshops()


def rewrite_terms(
    roots: Sequence[Term],
    policy: Policy = Policy.DEFAULT,
    is_frozen: IsFrozen = _marked_frozen,
    budget: Budget | None = None,
) -> Rewritten:
    """Equal terms with less work; `is_frozen` says which tensors are bound once (weights)."""
    started = time.perf_counter()
    if all(_is_trivial(root) for root in roots):
        return Rewritten(tuple(roots), RewriteReport(StopReason.SATURATED, seconds=time.perf_counter() - started))
    try:
        with _WORKSHOPS.of(policy).explored(roots, budget or Budget(), is_frozen) as (encoding, classes, saturation):
            found = extract(classes, encoding, Costs(classes, encoding))
        _verify(roots, found)
    except CompileError as error:
        seconds = time.perf_counter() - started
        return Rewritten(tuple(roots), RewriteReport(StopReason.FAILED, seconds=seconds, failure=str(error)))
    seconds, done = time.perf_counter() - started, saturation
    report = RewriteReport(done.stop_reason, done.iterations, done.terms, seconds, done.matches)
    return Rewritten(found, report)


def equal_terms(
    roots: Sequence[Term], count: int, seed: int = 0, policy: Policy = Policy.DEFAULT, budget: Budget | None = None
) -> list[tuple[Term, ...]]:
    """Up to `count` different extractions of the region, the cheapest first: what tests compare with the original."""
    with _WORKSHOPS.of(policy).explored(roots, budget or Budget(), _marked_frozen) as (encoding, classes, _):
        return list(candidates(classes, encoding, Costs(classes, encoding), count, seed))


def _is_trivial(root: Term) -> bool:
    """One operation on leaves at most: nothing to rewrite."""
    if isinstance(root.op, Reduction) and not set(root.op.axes) <= root.args[0].free:
        return False
    return all(not arg.args for arg in root.args)


def _is_constant(atom: Term, is_frozen: IsFrozen) -> bool:
    match atom.op:
        case Number() | Index():
            return True
        case Load(tensor):
            return is_frozen(tensor) and not children(atom)
        case _:
            return False


def _verify(old: Sequence[Term], new: Sequence[Term]) -> None:
    """A rewritten root keeps its dtype and depends on no axis the old one did not have."""
    for before, after in zip(old, new, strict=True):
        if before.dtype != after.dtype or not after.free <= before.free:
            raise CompileError(
                f"rewriting changed a root of {before.dtype} into {after!r} of {after.dtype}; please report"
            )
