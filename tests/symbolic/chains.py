"""Random chains of movements, applied to a View and to a NumPy array side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from snell.symbolic import Axis, Dim, Shape, View, as_expr

Array = np.ndarray[Any, np.dtype[Any]]
MOVES = ("reshape", "permute", "expand", "slice", "pad", "window")


def split_shape(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """A random factorisation of an element count."""
    factors: list[int] = []
    while count > 1 and len(factors) < 3 and draw(st.booleans()):
        divisor = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
        factors.append(divisor)
        count //= divisor
    return (*factors, count)


@st.composite
def chains(draw: st.DrawFn, shape: tuple[int, ...], longest: int = 5) -> tuple[View, list[tuple[Any, ...]]]:
    """A view over `shape` and the list of moves that made it."""
    view, moves = View.identity(shape), []
    for _ in range(draw(st.integers(0, longest))):
        move = _draw_move(draw, tuple(int(n) for n in view.shape))
        if move is not None:
            moves.append(move)
            view = apply_to_view(view, move)
    return view, moves


def _draw_move(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    kind = draw(st.sampled_from(MOVES))
    if kind == "reshape":
        return kind, split_shape(draw, math.prod(shape)) if math.prod(shape) else (*shape, 1)
    if kind == "permute":
        return kind, tuple(draw(st.permutations(range(len(shape)))))
    if kind == "expand":
        lead = (draw(st.integers(1, 2)),) if len(shape) < 4 and math.prod(shape) < 500 and draw(st.booleans()) else ()
        return kind, (*lead, *(draw(st.integers(1, 3)) if n == 1 and math.prod(shape) < 500 else n for n in shape))
    if kind == "slice":
        parts = []
        for n in shape:
            step = draw(st.sampled_from([1, 1, 2, -1]))
            size = draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else min(n, 1), n))
            size = min(size, (n + abs(step) - 1) // abs(step))
            span = max(0, (size - 1) * abs(step))
            low = draw(st.integers(0, max(0, n - 1 - span)))
            parts.append((low if step > 0 else low + span, size, step))
        return kind, *zip(*parts, strict=True)
    if kind == "pad":
        return kind, *([draw(st.integers(-1 if n > 2 else 0, 2)) for n in shape] for _ in range(2))
    axis = draw(st.integers(0, len(shape) - 1))
    length = draw(st.integers(1, 3))
    dilation = draw(st.integers(1, 2))
    if len(shape) >= 4 or shape[axis] < dilation * (length - 1) + 1:
        return None
    return kind, axis, length, draw(st.integers(1, 2)), dilation


def apply_to_view(view: View, move: tuple[Any, ...]) -> View:
    kind, *arguments = move
    return getattr(view, kind)(*arguments)


def apply_to_array(array: Array, move: tuple[Any, ...]) -> Array:
    kind, *arguments = move
    match kind:
        case "reshape":
            return array.reshape(arguments[0])
        case "permute":
            return array.transpose(arguments[0])
        case "expand":
            return np.broadcast_to(array, arguments[0])
        case "slice":
            for k, (start, size, step) in enumerate(zip(*arguments, strict=True)):
                array = np.take(array, start + step * np.arange(size), axis=k)
            return array
        case "pad":
            return _padded(array, *arguments)
        case _:
            axis, length, step, dilation = arguments
            windows = np.lib.stride_tricks.sliding_window_view(array, dilation * (length - 1) + 1, axis)
            taken = np.take(windows, np.arange(0, windows.shape[axis], step), axis=axis)
            return taken[..., ::dilation]


def _padded(array: Array, before: list[int], after: list[int]) -> Array:
    grown = np.pad(array, [(max(0, lo), max(0, hi)) for lo, hi in zip(before, after, strict=True)])
    crop = tuple(slice(max(0, -lo), n - max(0, -hi)) for lo, hi, n in zip(before, after, grown.shape, strict=True))
    return grown[crop]


def through(view: View, array: Array, sizes: Mapping[Dim, int]) -> Array:
    """The view's definition, literally: every index and guard evaluated at every position."""
    shape = [int(as_expr(n).evaluate(sizes)) for n in view.shape]
    values: dict[Any, Any] = dict(sizes)
    for k, (size, mesh) in enumerate(zip(view.shape, np.indices(shape), strict=True)):
        values[Axis(f"i{k}", size)] = mesh
    mask = np.ones(shape, bool)
    for guard in view.guards:
        mask &= np.asarray(guard.evaluate(values)) >= 0
    if 0 in array.shape or 0 in shape:
        assert not mask.any()
        return np.zeros(shape, array.dtype)
    places = [np.broadcast_to(index.evaluate(values), shape) for index in view.indices]
    for place, n in zip(places, array.shape, strict=True):
        assert ((place >= 0) & (place < n))[mask].all(), "a view reads out of range where its guards hold"
    inside = tuple(np.clip(place, 0, n - 1) for place, n in zip(places, array.shape, strict=True))
    return np.where(mask, array[inside], 0)


def concrete(shape: Shape, sizes: Mapping[Dim, int]) -> tuple[int, ...]:
    return tuple(int(as_expr(n).evaluate(sizes)) for n in shape)
