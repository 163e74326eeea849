"""The default engine behind `sn.compile`, `sn.Graph` and `sn.load`: made on first use, from the process's environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, overload

from snell.config import Config, process_environment
from snell.engine.eager import EagerEvaluator
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction, DimSpec
from snell.engine.graph import Graph
from snell.engine.saved import LoadedFunction, read_program

__all__ = ["compile", "default_engine", "graph", "load"]


@cache
def default_engine() -> Engine:
    """The engine of this process."""
    return Engine(Config.from_environment(process_environment()))


def graph() -> Graph:
    """A new explicit graph on the default engine."""
    return Graph(default_engine(), EagerEvaluator())


def load(path: str | os.PathLike[str]) -> LoadedFunction:
    """The function that `f.save(path)` wrote: nothing is traced, rewritten or compiled."""
    return read_program(path, default_engine())


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
) -> CompiledFunction | Callable[[Callable[..., Any]], CompiledFunction]:
    """Compile a function of arrays (also as a decorator).

    `static` arguments are part of the program; `dims` names symbolic axes, `{"x": ("batch", None)}`, so that one program
    serves every size; `donate` arguments may be overwritten; `precision` is "strict", "default" or "fast".
    """

    def wrap(inner: Callable[..., Any]) -> CompiledFunction:
        return CompiledFunction(inner, default_engine(), static=static, dims=dims, donate=donate, precision=precision)

    return wrap if function is None else wrap(function)
