"""BatchPrograms: a language model's passes for many texts: a chunk of one prompt, or one token of each text.

Each kind of pass is one program whatever the number of tokens or texts, and a program's order of summation for a row
does not depend on the other rows.  So a text's logits are the same bits alone, in any batch, and for any chunks.  The
price is that a batch is always computed in full: places without a text hold an empty one.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from snell.llm.cache import CacheShape
from snell.llm.compiler_protocol import Array, CompiledProgram
from snell.llm.serving.cache_pool import Pages
from snell.llm.serving.text_cache import TextCache, new_cache
from snell.llm.step import PAST, POSITIONS, RESULT, TOKENS, text_past, text_prefix

__all__ = ["BatchPrograms"]

_PAGE_BYTES = 4096


class BatchPrograms:
    """Belongs to one thread at a time.  ``chunk`` is the most tokens of a pass over a prompt."""

    def __init__(
        self, prompt: CompiledProgram, batch: CompiledProgram, cache: CacheShape, *, places: int, chunk: int
    ) -> None:
        self._prompt, self._batch, self._shape = prompt, batch, cache
        self.places, self.chunk = places, chunk
        self.make = new_cache(cache)
        self._empty = [self.make() for _ in range(places)]

    @property
    def pages(self) -> Pages:
        """How the memory of caches is counted."""
        shape = self._shape
        positions = max(1, _PAGE_BYTES // (shape.head_dim * shape.dtype.itemsize))
        # A page of scales is many positions long: each run of them ends in a page that is not full.
        scales = shape.heads * len(shape.scales)
        return Pages(positions, positions * shape.position_nbytes, scales * _PAGE_BYTES)

    def prefill(self, cache: TextCache, ids: Sequence[int]) -> Array:
        """Logits (vocabulary,) after the next tokens of a prompt, 1 to ``chunk`` of them."""
        tokens = np.asarray(ids, np.int32)
        outputs = self._prompt({TOKENS: tokens, **cache.arrays}, {PAST: cache.past, TOKENS: tokens.size})
        cache.arrays = {name: outputs[name] for name in cache.arrays}
        cache.past += tokens.size
        cache.prefilled = cache.past
        return outputs[RESULT]

    def decode(self, caches: Sequence[TextCache], ids: Sequence[int]) -> Array:
        """Logits (texts, vocabulary) after one more token of each text, of which there are at most ``places``."""
        everyone = [*caches, *self._empty[len(caches) :]]
        tokens = np.zeros(self.places, np.int32)
        tokens[: len(ids)] = ids
        inputs: dict[str, Array] = {TOKENS: tokens, POSITIONS: np.array([one.past for one in everyone], np.int32)}
        for place, one in enumerate(everyone):
            inputs.update({text_prefix(place) + name: array for name, array in one.arrays.items()})
        outputs = self._batch(inputs, {text_past(place): one.past for place, one in enumerate(everyone)})
        for place, one in enumerate(everyone):
            _keep(one, outputs, text_prefix(place))
        for one in caches:
            one.past += 1
        return outputs[RESULT][: len(caches)]


def _keep(cache: TextCache, outputs: Mapping[str, Array], prefix: str) -> None:
    cache.arrays = {name: outputs[prefix + name] for name in cache.arrays}
