"""Deferred modules: a name at the top of a file for a module that is imported only when something in it is used.

Opening a model whose programs are in the cache traces, rewrites and compiles nothing, so its modules must not load what
does.  A module that only that work needs is named so:

    if TYPE_CHECKING:
        from snell.frontend.ops import movement
    else:
        movement = deferred("snell.frontend.ops.movement")

The checker and import-linter see an ordinary import; at run time each `movement.crop` looks the module up (0.3 µs once
it is loaded).  This is the one way in which a file imports later than at its top.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["DeferredModule", "deferred"]


class DeferredModule:
    """Stands for a module; every attribute is the module's."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)

    def __repr__(self) -> str:
        return f"deferred({self._name!r})"


def deferred(name: str) -> Any:
    """The module called `name`, imported when one of its attributes is first asked for."""
    return DeferredModule(name)
