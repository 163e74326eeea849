"""Saturation: one iteration at a time, until nothing changes or a budget is spent; the reason is reported."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from snell.rewrite.egraph import EGraph
from snell.rewrite.language import CONSTRUCTORS

__all__ = ["Budget", "Saturation", "StopReason", "saturate"]

_ITERATION = "(seq (saturate (run analysis)) (run algebra))"
_SETTLE = "(saturate (run analysis))"


class StopReason(Enum):
    """Why saturation ended; FAILED means that the region was left as it was."""

    SATURATED = "saturated"
    NODES = "nodes"
    ITERATIONS = "iterations"
    TIME = "time"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one region: terms in the e-graph, iterations, seconds.  Under 1,000 terms is normal."""

    terms: int = 5_000
    iterations: int = 60
    seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class Saturation:
    """How it went: iterations done, terms at the end, matches per rule of the algebra."""

    stop_reason: StopReason
    iterations: int
    terms: int
    matches: Mapping[str, int]


def saturate(egraph: EGraph, budget: Budget, names: frozenset[str]) -> Saturation:
    """Run the rules on the open region; `names` are the rules whose matches are counted."""
    started = time.perf_counter()
    matches: Counter[str] = Counter()
    reason, iteration, terms = StopReason.ITERATIONS, 0, 0
    for iteration in range(1, budget.iterations + 1):  # noqa: B007 - reported after the loop
        step = egraph.step(_ITERATION)
        matches.update({name: n for name, n in step.matches.items() if n and name in names})
        terms = sum(step.sizes.get(name, 0) for name in CONSTRUCTORS)
        if not step.changed:
            reason = StopReason.SATURATED
            break
        if terms > budget.terms:
            reason = StopReason.NODES
            break
        if time.perf_counter() - started > budget.seconds:
            reason = StopReason.TIME
            break
    if reason is not StopReason.SATURATED:
        egraph.step(_SETTLE)  # the terms of the last iteration need their facts before extraction
    return Saturation(reason, iteration, terms, dict(matches))
