"""Interval arithmetic on bounds of integers: pairs (low, high), infinite where unbounded."""

from __future__ import annotations

import math

__all__ = ["divided", "exact", "multiplied", "scaled"]


def exact(value: float) -> float:
    """The bound as an integer, unless it is infinite."""
    return value if math.isinf(value) else int(value)


def scaled(a: float, b: float) -> float:
    """A product in which 0 times infinity is 0."""
    return 0 if a == 0 or b == 0 else a * b


def multiplied(x: tuple[float, float], y: tuple[float, float]) -> tuple[float, float]:
    """Every product of a value of `x` and a value of `y`."""
    products = [scaled(a, b) for a in x for b in y]
    return min(products), max(products)


def divided(numerator: tuple[float, float], divisor: tuple[float, float]) -> tuple[float, float]:
    """Floor division; unbounded where the divisor may not be positive."""
    if divisor[0] <= 0:
        return -math.inf, math.inf
    candidates = [n if math.isinf(n) else n // d for n in numerator for d in divisor if not math.isinf(d)]
    if math.isinf(divisor[1]):
        candidates.append(0)
        candidates.append(-1 if numerator[0] < 0 else 0)
    return min(candidates), max(candidates)
