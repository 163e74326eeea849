"""Coded factors: a float value as `scale·code + offset`, the code a whole number of few bits.

    Σ_k x[k]·(s·(16·high[k] + low[k] − 16) + m)  is, of the axis k,  scale s · code (16·high + low) + offset (m − 16·s)

Nothing but the dtypes of what is loaded tells a code from a scale: whole numbers that all reduced axes of the widest such
loads select are codes; what fewer axes select, or what is a float, belongs to scales and offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

from snell.graph.primitives import Add, Mul
from snell.rewrite.arithmetic import add, constant_of, multiply, subtract
from snell.rewrite.term import Cast, Load, Subtract, Term, number, walk
from snell.symbolic import Axis

__all__ = ["Coded", "coded", "whole_interval"]

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Coded:
    """`scale·(code + least) + offset`: the code counts from 0; `scale` None is 1 and `offset` None is 0."""

    axes: frozenset[Axis]
    code: Term
    least: int
    greatest: int
    scale: Term | None
    offset: Term | None


@dataclass(frozen=True, slots=True)
class _Parts:
    """`scale·whole + offset` while it is put together; what is absent is None."""

    whole: Term | None
    scale: Term | None
    offset: Term | None


def coded(value: Term, axes: frozenset[Axis]) -> Coded | None:
    """The value's code along some of the axes; None where it has none."""
    loads = [item for item in walk(value) if isinstance(item.op, Load)]
    integers = [item for item in loads if item.dtype.is_integer]
    inner = axes.intersection(value.free).difference(*(item.free for item in loads if not item.dtype.is_integer))
    widest = max((len(item.free & inner) for item in integers), default=0)
    inner = inner.difference(*(item.free for item in integers if len(item.free & inner) < widest))
    found = _parts(value, inner) if inner and widest else None
    if found is None or found.whole is None:
        return None
    interval = whole_interval(found.whole)
    assert interval is not None
    least, greatest = interval
    return Coded(inner, _from_zero(found.whole, least), least, greatest - least, found.scale, found.offset)


def _from_zero(whole: Term, least: int) -> Term:
    """`whole - least`, its constant addends gathered: the same term however the program spells it."""
    rest, constant = whole, -least
    while isinstance(rest.op, Add):
        known = [_constant(argument) for argument in rest.args]
        place = 0 if known[0] is not None else 1
        addend = known[place]
        if addend is None:
            break
        rest, constant = rest.args[1 - place], constant + addend
    return add(rest, number(constant, rest.dtype))


def _constant(item: Term) -> int | None:
    """The value of a whole number that nothing is loaded for."""
    interval = whole_interval(item)
    return interval[0] if interval is not None and interval[0] == interval[1] else None


def whole_interval(item: Term) -> Interval | None:
    """Bounds of a value that is a whole number whatever is loaded; None for any other."""
    match item.op:
        case Load():
            low, high = item.dtype.range
            return (int(low), int(high)) if item.dtype.is_integer else None
        case Cast():
            return whole_interval(item.args[0])
        case Add() | Subtract() | Mul():
            sides = [whole_interval(argument) for argument in item.args]
            return None if sides[0] is None or sides[1] is None else _combined(item, sides[0], sides[1])
        case _:
            constant = constant_of(item)
            return None if constant is None or constant.denominator != 1 else (int(constant), int(constant))


def _combined(item: Term, a: Interval, b: Interval) -> Interval:
    if isinstance(item.op, Add):
        return a[0] + b[0], a[1] + b[1]
    if isinstance(item.op, Subtract):
        return a[0] - b[1], a[1] - b[0]
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def _parts(value: Term, inner: frozenset[Axis]) -> _Parts | None:
    """The value as scale, whole number and offset, of which only the whole number depends on `inner`."""
    if not value.free & inner:
        return _Parts(None, None, value)
    if whole_interval(value) is not None:
        return _Parts(value, None, None)
    match value.op:
        case Mul():
            varying = [argument for argument in value.args if argument.free & inner]
            other = value.args[1] if varying[0] is value.args[0] else value.args[0]
            found = _parts(varying[0], inner) if len(varying) == 1 else None
            return None if found is None else _scaled(found, other)
        case Add() | Subtract():
            return _added(value, inner)
        case _:
            return None


def _scaled(parts: _Parts, factor: Term) -> _Parts:
    scale = factor if parts.scale is None else multiply(parts.scale, factor)
    return _Parts(parts.whole, scale, None if parts.offset is None else multiply(parts.offset, factor))


def _added(value: Term, inner: frozenset[Axis]) -> _Parts | None:
    """A sum of a varying value and one that is free of the axes."""
    left, right = value.args
    minus = number(-1, value.dtype)
    varying = left if left.free & inner else right
    rest = right if varying is left else left
    if rest.free & inner:
        return None
    found = _parts(varying, inner)
    if found is None:
        return None
    if isinstance(value.op, Add):
        return _Parts(found.whole, found.scale, rest if found.offset is None else add(found.offset, rest))
    if varying is right:
        found = _scaled(found, minus)
        return _Parts(found.whole, found.scale, rest if found.offset is None else add(found.offset, rest))
    less = multiply(rest, minus) if found.offset is None else subtract(found.offset, rest)
    return _Parts(found.whole, found.scale, less)
