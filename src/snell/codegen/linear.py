"""Linear forms: the value of an index expression at the current position of the loops.

`constant + Σ coefficient·name + lane·(lane number) + vector`, where the names are i64 scalars with known facts (a
multiple, a least and a greatest value).  Facts let divisions by layout blocks split exactly: a loop that advances by a
multiple of the block contributes to the quotient, what stays below the block to the remainder.
"""

from __future__ import annotations

from dataclasses import dataclass

from snell.codegen.assembler import Value

__all__ = ["Fact", "Linear"]


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of an i64 scalar: it is a multiple of `multiple` and lies in `low..high`."""

    multiple: int
    low: float
    high: float


class Linear:
    """A linear form with its interval; `lane` is the step between lanes, `vector` an i64 vector added on top."""

    __slots__ = ("constant", "high", "lane", "low", "terms", "vector")

    def __init__(
        self,
        constant: int = 0,
        terms: dict[str, int] | None = None,
        low: float = 0,
        high: float = 0,
        lane: int = 0,
        vector: Value | None = None,
    ) -> None:
        self.constant = constant
        self.terms: dict[str, int] = terms if terms is not None else {}
        self.low = low
        self.high = high
        self.lane = lane
        self.vector = vector

    @staticmethod
    def known(value: int) -> Linear:
        return Linear(value, {}, value, value)

    @property
    def is_constant(self) -> bool:
        return not self.terms and not self.lane and self.vector is None

    @property
    def is_scalar(self) -> bool:
        return not self.lane and self.vector is None

    def scaled(self, factor: int) -> Linear:
        """Times a constant (only of forms without a vector part)."""
        if factor == 0:
            return Linear()
        bounds = (self.low * factor, self.high * factor)
        terms = {name: k * factor for name, k in self.terms.items()}
        return Linear(self.constant * factor, terms, min(bounds), max(bounds), self.lane * factor)

    def plus(self, other: Linear) -> Linear:
        """Sum (at most one of the two has a vector part)."""
        terms = dict(self.terms)
        for name, k in other.terms.items():
            terms[name] = terms.get(name, 0) + k
        vector = self.vector if self.vector is not None else other.vector
        low, high = self.low + other.low, self.high + other.high
        return Linear(self.constant + other.constant, terms, low, high, self.lane + other.lane, vector)
