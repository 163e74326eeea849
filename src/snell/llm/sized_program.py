"""A program with one variant for each class of step size: decoding reads one token a call, a prompt many.

Both variants hold for every size within their bounds; they differ in the sizes their schedules are made for.
"""

from collections.abc import Callable, Mapping

from snell.llm.compiler_protocol import Array, CompiledProgram
from snell.llm.step import TOKENS
from snell.locks import Lock

__all__ = ["SizedProgram"]


class SizedProgram:
    """Variants are made when first needed; ``make(most)`` gives the program for steps of 1 to ``most`` tokens."""

    def __init__(self, classes: tuple[int, ...], make: Callable[[int], CompiledProgram]) -> None:
        self._classes = tuple(sorted(set(classes)))
        self._make = make
        self._made: dict[int, CompiledProgram] = {}
        self._lock = Lock()

    def __call__(self, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> Mapping[str, Array]:
        """Run the smallest variant that holds the step."""
        wanted = sizes[TOKENS]
        most = next((size for size in self._classes if wanted <= size), self._classes[-1])
        return self._variant(most)(inputs, sizes)

    def prepare(self) -> None:
        """Make every variant now."""
        for most in self._classes:
            self._variant(most)

    def largest(self) -> CompiledProgram:
        """The variant that holds every step."""
        return self._variant(self._classes[-1])

    def _variant(self, most: int) -> CompiledProgram:
        found = self._made.get(most)
        if found is None:
            with self._lock:
                found = self._made.get(most)
                if found is None:
                    found = self._made[most] = self._make(most)
        return found
