"""Evolution of one kernel's plan: neighbours of the heuristics first, then mutations and crossings of the best.

Everything is drawn from a generator seeded with the kernel's key, so that the same outcomes give the same search.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from snell.errors import CompileError
from snell.loops.plan import HEURISTICS, Plan
from snell.search.candidate import Candidate
from snell.search.model import Model
from snell.search.space import Space
from snell.search.trial import Outcome

__all__ = ["Evolution", "Proposal"]

_ELITE = 6
_DRAWN = 4  # plans drawn for each that is tried: the model picks
_MOST_DRAWS = 60
_NEIGHBOURS = 24


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan to try, the kernel it gives, and the model's cycles."""

    plan: Plan
    candidate: Candidate
    cycles: float


@dataclass(slots=True)
class Evolution:
    """What is known of a kernel's plans; `build` makes a plan's candidate (CompileError where it does not fit)."""

    space: Space
    model: Model
    build: Callable[[Plan], Candidate]
    first: Candidate
    seed: str
    outcomes: list[tuple[Proposal, Outcome]] = field(default_factory=list[tuple[Proposal, Outcome]])
    best: tuple[float, Plan] = (1.0, HEURISTICS)
    _seen: set[str] = field(default_factory=set[str])
    _generator: random.Random = field(init=False)
    _neighbours: Iterator[Plan] = field(init=False)

    def __post_init__(self) -> None:
        self._generator = random.Random(self.seed)
        self._neighbours = self.space.neighbours()
        self._seen.add(self.first.kernel)

    def propose(self) -> Proposal | None:
        """The next plan to try; None where nothing new is found."""
        drawn: list[Proposal] = []
        for _ in range(_MOST_DRAWS):
            proposal = self._proposal(self._draw())
            if proposal is not None:
                drawn.append(proposal)
            if len(drawn) >= (1 if len(self.outcomes) < _NEIGHBOURS else _DRAWN):
                break
        if not drawn:
            return None
        chosen = min(drawn, key=lambda proposal: proposal.cycles)
        for other in drawn:
            if other is not chosen:
                self._seen.discard(other.candidate.kernel)
        return chosen

    def learn(self, proposal: Proposal, outcome: Outcome) -> bool:
        """Take an outcome in; whether it is the best so far."""
        self.outcomes.append((proposal, outcome))
        better = outcome.rejected is None and outcome.ratio < self.best[0]
        if better:
            self.best = (outcome.ratio, proposal.plan)
        return better

    def _draw(self) -> Plan:
        if len(self.outcomes) < _NEIGHBOURS:
            plan = next(self._neighbours, None)
            if plan is not None:
                return plan
        timed = sorted((o.ratio, k) for k, (_, o) in enumerate(self.outcomes) if o.rejected is None)
        elite = [HEURISTICS, *(self.outcomes[k][0].plan for _, k in timed[:_ELITE])]
        # The best come first: parents are drawn from the front of the list more often.
        elite.sort(key=lambda plan: plan is HEURISTICS and self.best[0] < 1.0)
        parent = elite[min(int(self._generator.expovariate(0.7)), len(elite) - 1)]
        if len(elite) > 2 and self._generator.random() < 0.25:
            return self.space.crossed(parent, self._generator.choice(elite), self._generator)
        return self.space.mutated(parent, self._generator)

    def _proposal(self, plan: Plan) -> Proposal | None:
        try:
            cycles = self.model.cycles(plan)
            candidate = self.build(plan)
        except CompileError:
            return None
        if candidate.kernel in self._seen:
            return None
        self._seen.add(candidate.kernel)
        return Proposal(plan, candidate, cycles)
