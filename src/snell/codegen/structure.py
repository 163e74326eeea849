"""What a body of statements looks like from outside, each question answered once per body.

Answers are remembered by identity: hashing a statement walks everything below it, which dominated emission when these
were cached by value.  The bodies belong to the kernel being emitted and outlive this object.
"""

from __future__ import annotations

from snell.loops.ir import Init, Loop, LoopKind, Statement
from snell.symbolic import Axis

__all__ = ["Structure"]

Body = tuple[Statement, ...]


class Structure:
    """Facts about the bodies of one phase."""

    def __init__(self) -> None:
        self._serial: dict[tuple[int, int], bool] = {}
        self._first: dict[tuple[int, int], frozenset[LoopKind]] = {}
        self._shared: dict[int, tuple[Axis, ...]] = {}

    def has_serial(self, body: Body, axis: Axis) -> bool:
        """A serial level of the axis lies somewhere inside."""
        key = (id(body), id(axis))
        found = self._serial.get(key)
        if found is None:
            found = self._serial[key] = any(
                (s.level.axis == axis and s.level.kind is LoopKind.SERIAL) or self.has_serial(s.body, axis)
                for s in body
                if isinstance(s, Loop)
            )
        return found

    def first_kinds(self, body: Body, axis: Axis) -> frozenset[LoopKind]:
        """The kinds of the first levels of an axis that the statements reach."""
        key = (id(body), id(axis))
        found = self._first.get(key)
        if found is None:
            kinds: set[LoopKind] = set()
            for statement in body:
                if isinstance(statement, Loop):
                    level = statement.level
                    kinds |= {level.kind} if level.axis == axis else self.first_kinds(statement.body, axis)
            found = self._first[key] = frozenset(kinds)
        return found

    def shared_axes(self, body: Body) -> tuple[Axis, ...]:
        """Axes looped over in a body whose statements share an accumulator that one of them initialises."""
        found = self._shared.get(id(body))
        if found is None:
            found = tuple(dict.fromkeys(_axes(body))) if any(_initialises(s) for s in body) else ()
            self._shared[id(body)] = found
        return found


def _axes(body: Body) -> list[Axis]:
    return [axis for s in body if isinstance(s, Loop) for axis in (s.level.axis, *_axes(s.body))]


def _initialises(statement: Statement) -> bool:
    """An Init below without a serial level between: its accumulator lives in the enclosing body."""
    match statement:
        case Init():
            return True
        case Loop(level, body) if level.kind is not LoopKind.SERIAL:
            return any(_initialises(inner) for inner in body)
        case _:
            return False
