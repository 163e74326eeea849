"""Compiler: what turns the programs of a language model into something that can be called.

The model families build graphs and know nothing of how they are run.  A ``Compiler`` takes a graph and the arrays of
its frozen inputs and returns a ``CompiledProgram``.  Donated inputs (the KV cache) share their names with outputs:
the caller uses the returned array from then on, which may be the donated one, updated in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

if TYPE_CHECKING:
    from snell.graph.node import Graph
    from snell.search.tuning import Moment, Tuning

__all__ = ["Array", "CompiledProgram", "Compiler", "Program", "ProgramRecipe"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A graph with the arrays of its frozen inputs; an input with a ``Storage`` has an array of bytes (u8).

    ``constants`` are those frozen arrays that were computed for the program and are in no file.
    """

    graph: Graph
    frozen: Mapping[str, Array]
    constants: Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRecipe:
    """A program that need not be built where it was built before.

    ``content`` says everything the program depends on; ``build`` traces it; ``weights`` gives the arrays of frozen
    inputs that are no constants, which are the contents of `files`; `release` gives their pages in memory back.
    """

    content: str
    build: Callable[[], Program]
    weights: Callable[[Iterable[str]], Mapping[str, Array]]
    files: tuple[Path, ...]
    release: Callable[[], None]


class CompiledProgram(Protocol):
    """A program that can be called, from any thread."""

    def __call__(self, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> Mapping[str, Array]:
        """The outputs by name; ``inputs`` are those that are not frozen, ``sizes`` the Dims by name."""
        ...


class Compiler(Protocol):
    """Whatever can run a graph: the engine, or in tests the reference interpreter."""

    def compile(self, recipe: ProgramRecipe) -> CompiledProgram:
        """Prepare the program; it is called many times."""
        ...

    def explain(self, program: Program) -> object:
        """A report to read on what the program is compiled to; UnsupportedError where nothing is compiled."""
        ...

    def tune(self, program: Program, seconds: float, progress: Callable[[Moment], None] | None) -> Tuning:
        """Search for faster schedules; UnsupportedError where nothing is compiled."""
        ...
