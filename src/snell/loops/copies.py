"""Where the copy of a packed operand lives: in a workspace that all threads share, or with each ticket.

A shared copy is made once, in a phase of its own: every thread waits for it, and what one core wrote another reads from
beyond its caches.  A ticket's own copy is made pass by pass just before it is used and never leaves the core, but every
ticket that needs the same piece makes it again.  So a ticket keeps its own where few rows of the result share it: then
all of them fit one or two tickets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from snell.loops.access import access_of
from snell.loops.stage import Stage
from snell.loops.traffic import PASS_LENGTH, elements_used, is_cold, is_packed_once
from snell.rewrite.term import Load, Term, walk
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["copying", "is_ticket_own", "may_be_ticket_own", "ticket_rows"]

_TICKET_ROWS = 256  # rows of a ticket that makes its own copies: a pass over them stays in the second-level cache
_COPY, _GATHERED_COPY, _COLD_COPY = 1.0, 3.0, 4.0  # cycles an element; cold: read, written, and read once more
_PANEL, _LEAST_TICKETS = 16.0, 8.0  # columns that tickets differ by at least, and tickets that threads can share
_MOST_REPEATS = 2.0  # a copy within the core costs less than half of one through the shared cache (measured)


def is_ticket_own(stage: Stage, packed: Iterable[Term], vector: Axis | None, unrolled: Axis | None) -> bool:
    """Whether tickets copy these operands for themselves, all of them: they may, and it pays."""
    operands = tuple(packed)
    if not may_be_ticket_own(stage, operands, vector, unrolled):
        return False
    assert unrolled is not None
    assert vector is not None
    copied = [item for item in operands if not is_packed_once(item)]
    if any(_repeats(stage, item, vector, unrolled) > _MOST_REPEATS for item in copied):
        return False
    others = math.prod(stage.extent(axis) for axis in stage.axes if axis not in (vector, unrolled))
    columns = stage.extent(vector) / _PANEL
    return others * math.ceil(stage.extent(unrolled) / _TICKET_ROWS) * columns >= _LEAST_TICKETS


def may_be_ticket_own(stage: Stage, packed: Iterable[Term], vector: Axis | None, unrolled: Axis | None) -> bool:
    """Whether tickets can copy these operands for themselves: what one of them needs is known, and fits the core."""
    copied = [item for item in packed if not is_packed_once(item)]
    if not copied or unrolled is None or vector is None or vector in stage.reduced or stage.ranges:
        return False
    if not all(isinstance(axis.extent, int) for axis in stage.reduced):
        return False
    # without passes, all of the operand's length would be alive at once
    return stage.holds_sums or math.prod(stage.extent(axis) for axis in stage.reduced) <= 2 * PASS_LENGTH


def _repeats(stage: Stage, item: Term, vector: Axis, unrolled: Axis) -> float:
    """How many tickets need the same piece of an operand."""
    others = (axis for axis in stage.axes if axis not in (vector, unrolled) and axis not in item.free)
    return math.ceil(stage.extent(unrolled) / _TICKET_ROWS) * math.prod(stage.extent(axis) for axis in others)


def ticket_rows(extent: float, count: int) -> int:
    """Rows of a ticket, in equal parts and whole tiles of `count`."""
    tickets = math.ceil(extent / _TICKET_ROWS)
    return max(1, math.ceil(extent / tickets / count)) * count


def copying(stage: Stage, packed: tuple[Term, ...], vector: Axis, unrolled: Axis | None, target: Target) -> float:
    """Cycles per element of the iteration space that copying operands takes, where each call copies them anew."""
    if stage.ranges:
        return 0.0  # a group copies once for many blocks of rows
    own = is_ticket_own(stage, packed, vector, unrolled)
    whole = math.prod(stage.extent(axis) for axis in (*stage.axes, *stage.reduced))
    total = 0.0
    for item in packed:
        loads = [t for t in walk(item) if isinstance(t.op, Load)]
        if is_packed_once(item):
            continue
        each = _COPY if all(access_of(t).is_vector(vector) for t in loads) else _GATHERED_COPY
        if own and unrolled is not None:
            each *= _repeats(stage, item, vector, unrolled)
        else:
            each += _COLD_COPY * any(is_cold(stage, t, target) for t in loads)
        total += each * elements_used(stage, item) / whole
    return total
