"""Arithmetic of ranges: what a step of a level leaves for the levels inside, and what whole steps cover."""

from __future__ import annotations

from math import gcd

from snell.codegen.instructions import Instructions, Scalar
from snell.codegen.position import Dynamic, Extent

__all__ = ["extent_text", "maximum", "range_at", "tile_count", "whole_steps"]


def extent_text(extent: Extent) -> Scalar:
    return extent if isinstance(extent, int) else extent.text


def maximum(extent: Extent) -> int:
    return extent if isinstance(extent, int) else extent.maximum


def tile_count(code: Instructions, extent: Extent, step: int) -> Scalar:
    """Steps that cover a range, at least one."""
    if isinstance(extent, int):
        return max(1, -(-extent // step))
    raised = code.integer("add", extent.text, step - 1)
    return code.clamp("smax", code.scopes.emit(f"udiv i64 {raised}, {step}", raised), 1)


def whole_steps(code: Instructions, extent: Extent, step: int) -> tuple[Scalar, Extent]:
    """The part of a range that whole steps cover, and the range that is left."""
    if isinstance(extent, int):
        return extent // step * step, extent % step
    if extent.multiple % step == 0 or step == 1:
        return extent.text, 0
    rests = tuple(sorted({c % step for c in extent.candidates} - {0}))
    if extent.candidates and not rests:
        return extent.text, 0
    text = code.scopes.emit(f"urem i64 {extent.text}, {step}", extent.text)
    full = code.integer("sub", extent.text, text)
    if len(rests) == 1:
        return full, rests[0]
    unit = gcd(step, extent.multiple)
    return full, Dynamic(text, min(step - unit, extent.maximum), rests, multiple=unit)


def range_at(code: Instructions, extent: Extent, step: int, start: Scalar) -> Extent:
    """The range of the step that begins at `start`, of a level whose last step may be cut."""
    if isinstance(extent, int):
        if extent % step == 0:
            return step
        if isinstance(start, int) or extent <= step:
            return min(step, extent - start) if isinstance(start, int) else extent
        candidates: tuple[int, ...] = (step, extent % step)
    elif extent.multiple % step == 0:
        return step
    else:
        tiles = {min(step, c - o) for c in extent.candidates for o in range(0, c, step)}
        candidates = tuple(sorted(tiles, reverse=True))
    size = code.clamp("smin", code.integer("sub", extent_text(extent), start), step)
    multiple = gcd(step, extent if isinstance(extent, int) else extent.multiple)
    return Dynamic(str(size), min(step, maximum(extent)), candidates, True, multiple)
