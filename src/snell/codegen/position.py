"""Where the emitter stands on each axis: the loops around it, a constant from unrolling, the range left, the lanes."""

from __future__ import annotations

from dataclasses import dataclass

from snell.symbolic import Axis

__all__ = ["Dynamic", "Extent", "Position", "Positions"]


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A range known at run time: an i64 name, at most `maximum`, a multiple of `multiple`.

    `candidates` lists its values where they are few; `full` says that the maximum is the usual case.
    """

    text: str
    maximum: int
    candidates: tuple[int, ...] = ()
    full: bool = False
    multiple: int = 1


Extent = int | Dynamic


@dataclass(frozen=True, slots=True)
class Position:
    """`Σ terms + constant (+ lane)` with `extent` positions left for the levels inside.

    `key` numbers equal positions equally.  `unrolled` is the part of the constant that unrolled levels gave since the
    last run-time loop.  `mask` limits the lanes: a count of leading lanes, or the text of an i1 vector.
    """

    terms: tuple[str, ...]
    constant: int
    extent: Extent
    key: int
    unrolled: int = 0
    lanes: int = 0
    mask: int | str | None = None


class Positions:
    """The current position of every axis, and the one axis that is spread over lanes."""

    def __init__(self) -> None:
        self.at: dict[Axis, Position] = {}
        self.vector: Axis | None = None
        self._keys: dict[object, int] = {}

    def root(self, axis: Axis, extent: Extent) -> None:
        self.at[axis] = Position((), 0, extent, self._key((), 0, 0, None))

    def moved(self, position: Position, extent: Extent, constant: int = 0, term: str | None = None) -> Position:
        """Inside a serial level: `constant` for a known iteration, `term` for a run-time loop."""
        terms = (*position.terms, term) if term is not None else position.terms
        total = position.constant + constant
        return Position(terms, total, extent, self._key(terms, total, 0, None))

    def unrolled(self, position: Position, offset: int, extent: Extent) -> Position:
        """Inside one copy of an unrolled level."""
        total = position.constant + offset
        key = self._key(position.terms, total, 0, None)
        return Position(position.terms, total, extent, key, position.unrolled + offset)

    def vectorised(self, position: Position, offset: int, lanes: int, mask: int | str | None) -> Position:
        """Inside a vector level: the lanes cover the whole range."""
        total = position.constant + offset
        key = self._key(position.terms, total, lanes, mask)
        return Position(position.terms, total, 1, key, position.unrolled + offset, lanes, mask)

    def narrowed(self, position: Position, extent: Extent) -> Position:
        """The same place with a range that has become known."""
        return Position(position.terms, position.constant, extent, position.key, position.unrolled)

    @property
    def lanes(self) -> int:
        return self.at[self.vector].lanes if self.vector is not None else 0

    def _key(self, terms: tuple[str, ...], constant: int, lanes: int, mask: int | str | None) -> int:
        return self._keys.setdefault((terms, constant, lanes, mask), len(self._keys))
