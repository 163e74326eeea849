"""Serve: what clients of a server see while others are served too, the case of the suite ``serve``."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

__all__ = ["Serve", "ServeFigure"]


class ServeFigure(StrEnum):
    """What is measured of a server.

    Times of first tokens and between tokens are those of four clients that ask one request after the other, while a
    long prompt arrives in the middle. ``kept_rate`` is the share of their rate that three streams keep while a long
    prompt is read beside them. ``rate@N`` is the total rate of N streams.
    """

    FIRST_P50 = "first_p50"
    FIRST_P99 = "first_p99"
    NEXT_P50 = "next_p50"
    NEXT_P99 = "next_p99"
    KEPT_RATE = "kept_rate"
    RATE_1 = "rate@1"
    RATE_4 = "rate@4"

    @property
    def is_time(self) -> bool:
        """Whether it is a time that clients wait."""
        return self in _TIMES


_TIMES = frozenset({ServeFigure.FIRST_P50, ServeFigure.FIRST_P99, ServeFigure.NEXT_P50, ServeFigure.NEXT_P99})


@dataclass(frozen=True, slots=True)
class Serve:
    """One figure of a server of a language model with four places, measured by clients on sockets."""

    model: str
    figure: ServeFigure
    flops: ClassVar[int] = 0
    bytes: ClassVar[int] = 0

    @property
    def name(self) -> str:
        return f"serve/{self.model}/{self.figure}"

    @property
    def unit(self) -> str:
        if self.figure.is_time:
            return "ms"
        return "%" if self.figure is ServeFigure.KEPT_RATE else "tokens/s"

    def report(self, reading: float) -> float:
        if self.figure.is_time:
            return reading * 1e3
        return reading * 100 if self.figure is ServeFigure.KEPT_RATE else reading
