"""`sn.compile` and `sn.Graph`: what traces and compiles, on the engine of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from snell.config import SearchBudget
from snell.engine.default_engine import default_engine
from snell.engine.function import CompiledFunction, DimSpec
from snell.engine.graph import Graph
from snell.frontend.evaluator import Interpreter

__all__ = ["compile", "graph"]


def graph() -> Graph:
    """A new explicit graph on the default engine."""
    return Graph(default_engine(), Interpreter())


@overload
def compile(function: Callable[..., Any], **options: Any) -> CompiledFunction: ...
@overload
def compile(function: None = None, **options: Any) -> Callable[[Callable[..., Any]], CompiledFunction]: ...
def compile(
    function: Callable[..., Any] | None = None,
    *,
    static: Sequence[int | str] = (),
    dims: Mapping[str | int, DimSpec] | None = None,
    donate: Sequence[int | str] = (),
    precision: str = "default",
    search: SearchBudget | None = None,
) -> CompiledFunction | Callable[[Callable[..., Any]], CompiledFunction]:
    """Compile a function of arrays (also as a decorator).

    `static` arguments are part of the program; `dims` names symbolic axes, `{"x": ("batch", None)}`, so that one program
    serves every size; `donate` arguments may be overwritten; `precision` is "strict", "default" or "fast".

    `search` is "off", "full", or seconds to spend on finding faster schedules when a program is compiled: what is found is
    recorded in the cache folder, so the same program is searched once (None: what `SNELL_SEARCH` says).  ConfigError for
    another value.
    """

    def wrap(inner: Callable[..., Any]) -> CompiledFunction:
        return CompiledFunction(
            inner, default_engine(), static=static, dims=dims, donate=donate, precision=precision, search=search
        )

    return wrap if function is None else wrap(function)
