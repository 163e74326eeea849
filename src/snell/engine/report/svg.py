"""What the pictures of a page share: escaped text, amounts with units, ticks of logarithmic and linear axes."""

from __future__ import annotations

import math
from html import escape

__all__ = ["amount", "decades", "escape", "linear_ticks", "seconds_text", "text"]

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def amount(value: float, unit: str) -> str:
    """Three digits and a prefix: 3.14 GB."""
    for factor, prefix in _PREFIXES:
        if value >= factor:
            return f"{_digits(value / factor)} {prefix}{unit}"
    return f"{_digits(value)} {unit}"


def seconds_text(value: float) -> str:
    """Seconds in the unit that suits them."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{_digits(value / factor)} {unit}"
    return f"{_digits(value / 1e-9)} ns"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def decades(low: float, high: float) -> list[float]:
    """Powers of ten from below `low` to above `high`, two at least."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**k for k in range(first, max(last, first + 1) + 1)]


def linear_ticks(high: float) -> list[float]:
    """Round numbers from 0 to `high`, three to six."""
    if high <= 0:
        return [0.0]
    step = 10.0 ** math.floor(math.log10(high / 2))
    step = next(step * k for k in (1, 2, 5, 10) if high / (step * k) <= 6)
    return [step * k for k in range(int(high / step) + 1)]


def text(x: float, y: float, content: str, anchor: str = "start") -> str:
    """A line of text, escaped."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'
