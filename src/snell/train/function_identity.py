"""A key under which functions that do the same are one: a lambda made anew in a loop is not another program."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

__all__ = ["function_identity"]


class _Same:
    """Equal to itself alone, whatever the value's own equality says; keeps the value, so its identity stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def function_identity(function: Callable[..., Any]) -> Hashable:
    """Equal for functions with the same code that close over the same objects, and for one object."""
    match function:
        case partial():
            named = tuple((name, _Same(value)) for name, value in sorted(function.keywords.items()))
            return function_identity(function.func), tuple(map(_Same, function.args)), named
        case MethodType():
            return _Same(function.__self__), function_identity(function.__func__)
        case FunctionType():
            cells = tuple(map(_content, function.__closure__ or ()))
            defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
            return function.__code__, _Same(function.__globals__), cells, tuple(map(_Same, defaults))
        case _:
            return _Same(function)


def _content(cell: CellType) -> _Same | None:
    try:
        return _Same(cell.cell_contents)
    except ValueError:  # a name that has no value yet
        return None
