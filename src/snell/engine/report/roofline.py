"""The roofline (Williams, Waterman and Patterson 2009): each kernel's rate under what the machine could do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from snell.engine.report.svg import amount, decades, escape, text
from snell.runtime.limits import MachineLimits

__all__ = ["Point", "roofline"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 920, 420, 104, 46, 16, 16


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel: operations a byte, operations a second, its share of all time, and what to say of it."""

    intensity: float
    rate: float
    share: float
    label: str


@dataclass(frozen=True, slots=True)
class _Scales:
    """Logarithmic in both directions."""

    across: list[float]
    up: list[float]

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * _fraction(value, self.across)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * _fraction(value, self.up)


def _fraction(value: float, ticks: Sequence[float]) -> float:
    return math.log(value / ticks[0]) / math.log(ticks[-1] / ticks[0])


def roofline(points: Sequence[Point], limits: MachineLimits) -> str:
    """SVG; empty where the limits are not known or no kernel computes anything."""
    read, peak = limits.read_bytes_per_second, limits.f32_flops_per_second
    shown = [point for point in points if point.intensity > 0 and point.rate > 0]
    if not read or not peak or not shown:
        return ""
    ridge = peak / read
    across = decades(min(ridge, *(p.intensity for p in shown)) / 2, max(ridge, *(p.intensity for p in shown)) * 2)
    scales = _Scales(across, decades(min(p.rate for p in shown), max(peak, *(p.rate for p in shown)) * 1.2))
    parts = [*_grid(scales), *_roof(scales, read, peak), *(_dot(scales, p) for p in shown)]
    return f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'


def _grid(scales: _Scales) -> list[str]:
    left, right, top, bottom = _LEFT, _WIDTH - _RIGHT, _TOP, _HEIGHT - _BOTTOM
    parts: list[str] = []
    for tick in scales.across:
        x = scales.x(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(text(x, bottom + 18, f"{tick:g}", "middle"))
    for tick in scales.up:
        y = scales.y(tick)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(left - 8, y + 4, amount(tick, "FLOP/s"), "end"))
    parts.append(text((left + right) / 2, _HEIGHT - 8, "operations for each byte that has to move", "middle"))
    return parts


def _roof(scales: _Scales, read: float, peak: float) -> list[str]:
    """The two limits: bandwidth rises with intensity until arithmetic is all there is."""
    ridge, floor = peak / read, scales.up[0]
    begin = max(scales.across[0], floor / read)
    corners = [(begin, begin * read), (ridge, peak), (scales.across[-1], peak)]
    path = " ".join(f"{scales.x(x):.1f},{scales.y(y):.1f}" for x, y in corners)
    end = scales.x(scales.across[-1])
    return [
        f'<polyline class="roof" points="{path}"/>',
        text(end, scales.y(peak) - 7, f"{amount(peak, 'FLOP/s')} in f32", "end"),
        text(scales.x(begin) + 8, scales.y(begin * read) - 14, f"memory, {amount(read, 'B/s')}"),
    ]


def _dot(scales: _Scales, point: Point) -> str:
    radius = 3.5 + 14 * math.sqrt(point.share)
    return (
        f'<circle class="dot" cx="{scales.x(point.intensity):.1f}" cy="{scales.y(point.rate):.1f}" r="{radius:.1f}">'
        f"<title>{escape(point.label)}</title></circle>"
    )
