"""EmbeddingModel: a text encoder that was opened.

Texts are sorted by length and run in batches, so that little is padded; padding is masked and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from snell.deferred import deferred
from snell.errors import UnsupportedError
from snell.llm.compiler_protocol import CompiledProgram, Compiler, Program, ProgramRecipe
from snell.llm.families.encoder import Encoder, Pooling
from snell.llm.step import LENGTHS, RESULT, TEXTS, TOKENS
from snell.llm.stored_weight import WeightSource, weights_recipe
from snell.llm.tokenizer import Tokenizer
from snell.llm.vectors import finished_vectors, fitted_ids, pooling_named
from snell.locks import Lock

if TYPE_CHECKING:
    from snell.llm import programs
    from snell.search.tuning import Moment, Tuning
else:
    programs = deferred("snell.llm.programs")

__all__ = ["EmbeddingModel", "EmbeddingModelParts"]

BATCH_TEXTS = 32


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingModelParts:
    """What a model consists of on disk; ``pooling`` is that of its configuration."""

    encoder: Encoder
    weights: WeightSource
    tokenizer: Tokenizer
    pooling: Pooling


class EmbeddingModel:
    """Made by ``snell.llm.load``.  ``context`` is the most tokens of a text."""

    has_chat_template = False

    def __init__(self, parts: EmbeddingModelParts, compiler: Compiler, *, context: int) -> None:
        self._parts = parts
        self._compiler = compiler
        self.context = context
        self._programs: dict[Pooling, CompiledProgram] = {}
        self._lock = Lock()

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self._parts.tokenizer

    def embed(
        self,
        texts: str | Sequence[str],
        pooling: str | None = None,
        normalize: bool = True,
        dimensions: int | None = None,
        truncate: bool = False,
    ) -> npt.NDArray[np.float32]:
        """f32 (texts, d), pooled by ``pooling`` ("mean", "cls", "last"; None: as the model was trained).

        ``dimensions`` keeps the first so many before they are normalised.  A text that is too long is a
        ContextLengthError unless ``truncate`` cuts its end off.
        """
        ids = fitted_ids(self.tokenizer, texts, self.context, truncate)
        program = self._program(pooling_named(pooling, self._parts.pooling))
        vectors = np.empty((len(ids), self._parts.encoder.sizes.width), np.float32)
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        for start in range(0, len(order), BATCH_TEXTS):
            places = order[start : start + BATCH_TEXTS]
            vectors[places] = _batch(program, [ids[place] for place in places])
        return finished_vectors(vectors if ids else None, normalize, dimensions)

    def generate(self, prompt: object, **options: object) -> NoReturn:
        """An encoder cannot."""
        raise UnsupportedError("this model is an encoder and generates no text; use embed, or load a text generator")

    def logits(self, token_ids: object, lengths: object = None) -> NoReturn:
        """An encoder cannot."""
        raise UnsupportedError("this model is an encoder and has no logits; use embed, or load a text generator")

    def prepare(self) -> None:
        """Load, or compile, the program that ``embed`` uses; otherwise it is when first needed."""
        self._program(self._parts.pooling)

    def explain(self) -> object:
        """A report on the program that embeds a batch of texts."""
        return self._compiler.explain(self._recipe(self._parts.pooling).build())

    def tune(self, seconds: float, progress: Callable[[Moment], None] | None = None) -> list[Tuning]:
        """Search for faster schedules of the program that ``embed`` uses.

        What is found is recorded in the cache folder; models that are loaded afterwards use it.
        """
        return [self._compiler.tune(self._recipe(self._parts.pooling).build(), seconds, progress)]

    def _recipe(self, pooling: Pooling) -> ProgramRecipe:
        parts = self._parts
        content = f"embed {self.context} {pooling} {parts.encoder!r}\n{parts.weights.signature()}"

        def build() -> Program:
            return programs.embedding_program(parts.encoder, parts.weights, self.context, pooling)

        return weights_recipe(content, build, parts.weights)

    def _program(self, pooling: Pooling) -> CompiledProgram:
        with self._lock:
            if pooling not in self._programs:
                self._programs[pooling] = self._compiler.compile(self._recipe(pooling))
            return self._programs[pooling]


def _batch(program: CompiledProgram, ids: Sequence[Sequence[int]]) -> npt.NDArray[np.generic]:
    """Vectors (texts, width) of texts padded to the longest of them."""
    lengths = np.asarray([len(one) for one in ids], np.int32)
    tokens = np.zeros((len(ids), int(lengths.max())), np.int32)
    for row, one in zip(tokens, ids, strict=True):
        row[: len(one)] = one
    return program({TOKENS: tokens, LENGTHS: lengths}, {TEXTS: tokens.shape[0], TOKENS: tokens.shape[1]})[RESULT]
