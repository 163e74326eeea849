"""The reference interpreter as a ``Compiler``: slow, in float64 arithmetic, the judge of the compiled programs."""

from collections.abc import Mapping
from typing import NoReturn

from snell.errors import UnsupportedError
from snell.graph.interpret import interpret
from snell.llm.compiler_protocol import Array, CompiledProgram, Program, ProgramRecipe

__all__ = ["InterpretingCompiler"]


class InterpretingCompiler:
    """Compiles nothing; each call evaluates the graph with NumPy."""

    def compile(self, recipe: ProgramRecipe) -> CompiledProgram:
        """The program, interpreted at each call."""
        return _InterpretedProgram(recipe.build())

    def explain(self, program: Program) -> object:
        """Nothing is compiled."""
        raise _not_compiled()

    def tune(self, program: Program, seconds: float, progress: object) -> NoReturn:
        """Nothing is compiled."""
        raise _not_compiled()


def _not_compiled() -> UnsupportedError:
    return UnsupportedError("interpreted programs are not compiled; load the model without a compiler of your own")


class _InterpretedProgram:
    def __init__(self, program: Program) -> None:
        self._program = program

    def __call__(self, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> Mapping[str, Array]:
        graph = self._program.graph
        values = interpret(graph, {**self._program.frozen, **inputs}, {**sizes})
        return {name: value for (name, _), value in zip(graph.outputs, values, strict=True)}
