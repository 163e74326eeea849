"""Session: one text being read and written: the KV cache and how many positions of it are in use.

``feed`` takes the next tokens, in chunks of the program's size, and returns what the program computed of them.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from snell.errors import ContextLengthError
from snell.llm.cache import CacheShape
from snell.llm.compiler_protocol import Array, CompiledProgram
from snell.llm.step import PAST, RESULT, TOKENS

__all__ = ["Session"]


class Session:
    """Belongs to one thread at a time; the program may be shared."""

    def __init__(self, program: CompiledProgram, cache: CacheShape, chunk: int) -> None:
        self._program = program
        self._shape = cache
        self._chunk = chunk
        self._arrays = cache.empty()
        self.past = 0

    def feed(self, ids: Sequence[int]) -> Array:
        """The result after the last of the tokens, of which there must be one at least."""
        # Callers refuse empty prompts.
        return list(self.results(ids))[-1]

    def results(self, ids: Sequence[int]) -> Iterator[Array]:
        """The result of each chunk of the tokens, in order."""
        if self.past + len(ids) > self._shape.capacity:
            raise ContextLengthError(
                f"{self.past + len(ids)} tokens do not fit a context of {self._shape.capacity}; "
                "shorten the text, or load the model with a larger context"
            )
        tokens: npt.NDArray[np.int32] = np.asarray(ids, np.int32)
        for start in range(0, len(tokens), self._chunk):
            yield self._step(tokens[start : start + self._chunk])

    def _step(self, tokens: npt.NDArray[np.int32]) -> Array:
        sizes = {PAST: self.past, TOKENS: tokens.size}
        outputs = self._program({TOKENS: tokens, **self._arrays}, sizes)
        self._arrays = {name: outputs[name] for name in self._arrays}
        self.past += tokens.size
        return outputs[RESULT]
