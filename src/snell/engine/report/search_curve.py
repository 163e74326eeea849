"""How a search went: the best time found over the candidates that were timed."""

from __future__ import annotations

from collections.abc import Sequence

from snell.engine.report.svg import linear_ticks, seconds_text, text

__all__ = ["SearchPoint", "search_curve"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 920, 280, 78, 46, 16, 16

SearchPoint = tuple[float, int, float]
"""Seconds since the search began, candidates timed by then, best seconds of one run."""


def search_curve(points: Sequence[SearchPoint]) -> str:
    """SVG; empty without points."""
    if not points:
        return ""
    most = max(1, *(candidates for _, candidates, _ in points)) if len(points) > 1 else max(1, points[0][1])
    slowest = max(best for _, _, best in points)

    def x(candidates: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * candidates / most

    def y(best: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * best / (1.05 * slowest)

    parts: list[str] = []
    for tick in linear_ticks(slowest):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(text(_LEFT - 8, y(tick) + 4, seconds_text(tick) if tick else "0", "end"))
    for tick in linear_ticks(float(most)):
        parts.append(text(x(tick), _HEIGHT - _BOTTOM + 18, f"{tick:g}", "middle"))
    path = f"M{x(points[0][1]):.1f},{y(points[0][2]):.1f}"
    path += "".join(f"H{x(candidates):.1f}V{y(best):.1f}" for _, candidates, best in points[1:]) + f"H{x(most):.1f}"
    parts.append(f'<path class="roof" d="{path}"/>')
    parts.append(text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "candidates timed", "middle"))
    return f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'
