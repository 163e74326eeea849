"""Confirmation: whether plans that won alone help the whole program, and which of them do not.

All winners together are timed against the program by heuristics.  Where they gain less than their kernels did, each is
left out in turn, the largest first, and one without which the program is faster is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Confirmation", "confirm"]

_NOISE = 0.005  # of a ratio: a whole program's readings agree within about as much

Compare = Callable[[frozenset[str], frozenset[str]], float]
"""The program's time with some winners over its time with others, in neighbouring readings."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The whole program's time with the winners that are kept over its time by heuristics, and those taken back."""

    ratio: float
    taken_back: frozenset[str]


def confirm(
    winners: Sequence[str], expected: float, compare: Compare, has_time: Callable[[], bool]
) -> Confirmation | None:
    """Decide on winners, the largest first; `expected` is the ratio that the kernels alone promise.

    None where there is no time for the first comparison.
    """
    if not winners or not has_time():
        return None
    none, kept = frozenset[str](), frozenset(winners)
    ratio = compare(kept, none)
    if ratio > expected + 2 * _NOISE:
        for winner in winners:
            if not has_time():
                break
            if compare(kept - {winner}, kept) < 1.0 - _NOISE:
                kept = kept - {winner}
        if kept and len(kept) < len(winners):
            ratio = compare(kept, none)
    if ratio >= 1.0 or not kept:
        kept, ratio = none, 1.0
    return Confirmation(ratio, frozenset(winners) - kept)
