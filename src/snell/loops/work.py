"""How much work a ticket is: enough tickets are claimed at once that a dispatch costs little beside what it runs.

`is_worth_threads` says the same of a whole stage: whether one thread would take so long that others should help.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from snell.graph.primitives import ScalarFunction, Unary
from snell.loops.ir import Phase
from snell.loops.stage import Stage
from snell.rewrite.cut import typical_size, typical_volume
from snell.rewrite.term import walk

__all__ = ["claim_of", "is_worth_threads", "least_claim"]

_SECONDS_AN_OPERATION = 0.1e-9
_SECONDS_A_FUNCTION = 1e-9
_LEAST_SECONDS = 8e-6  # a sleeping worker takes longer than this to wake, so less work than this stays with the caller


def least_claim(phase: Phase, stages: Sequence[Stage]) -> int:
    """The least number of tickets worth a claim, so that one claim is some microseconds of work."""
    return claim_of(phase, sum(_seconds(stage) for stage in stages))


def claim_of(phase: Phase, seconds: float) -> int:
    """The same of a phase that takes one thread so many seconds."""
    tickets = max(1.0, typical_size(phase.tickets()))
    return max(1, math.ceil(_LEAST_SECONDS / max(seconds / tickets, 1e-12)))


def is_worth_threads(stage: Stage) -> bool:
    """Whether two threads would share the stage: each gets a claim's worth of it."""
    return _seconds(stage) >= 2 * _LEAST_SECONDS


def _seconds(stage: Stage) -> float:
    """Rough time of a stage on one thread: every operation at every point that it depends on."""
    known = frozenset((*stage.axes, *stage.reduced))
    total = typical_volume(known) * _SECONDS_AN_OPERATION
    for item in walk(*stage.terms()):
        if item.args:
            each = _SECONDS_A_FUNCTION if isinstance(item.op, ScalarFunction | Unary) else _SECONDS_AN_OPERATION
            total += typical_volume(item.free & known) * each
    return total
