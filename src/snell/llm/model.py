"""LanguageModel: a text generator that was opened: generate, logits, embed.

Every call has its own KV cache, so a model may be used from several threads.  Programs are traced and compiled on
their first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from snell.deferred import deferred
from snell.dtypes import DType
from snell.errors import ConfigError, ContextLengthError, OutOfRangeError, ShapeError, UnsupportedError
from snell.llm.compiler_protocol import Array, CompiledProgram, Compiler, Program
from snell.llm.families.decoder import Decoder
from snell.llm.families.encoder import Pooling
from snell.llm.generated_text import GeneratedText, GenerationPlan, token_logprob
from snell.llm.generation import Generation, TokenLogprob
from snell.llm.generation_stream import GenerationStream
from snell.llm.options import GenerateKeywords, GenerateOptions
from snell.llm.prompt import Prompt, is_batch, is_conversation, prompt_ids
from snell.llm.sampling import Sampler, SamplingParams
from snell.llm.session import Session
from snell.llm.sized_program import SizedProgram
from snell.llm.step import StepResult
from snell.llm.stored_weight import WeightSource, weights_recipe
from snell.llm.template_source import TemplateSource
from snell.llm.text_stream import TextStream
from snell.llm.tokenizer import Tokenizer
from snell.llm.vectors import finished_vectors, fitted_ids, pooling_named
from snell.locks import Lock

if TYPE_CHECKING:
    from snell.llm import chat_template, constraint, programs, text_rules
    from snell.llm.chat_template import ChatTemplate
    from snell.llm.constraint import GrammarTokens
    from snell.llm.serving import batch_programs
    from snell.llm.serving.batch_programs import BatchPrograms
    from snell.llm.text_rules import TextRules
    from snell.search.tuning import Moment, Tuning
else:
    batch_programs = deferred("snell.llm.serving.batch_programs")
    chat_template = deferred("snell.llm.chat_template")
    constraint = deferred("snell.llm.constraint")
    programs = deferred("snell.llm.programs")
    text_rules = deferred("snell.llm.text_rules")

__all__ = ["LanguageModel", "LanguageModelParts"]

PREFILL_CHUNK = 128


@dataclass(frozen=True, slots=True, eq=False)
class LanguageModelParts:
    """What a model consists of on disk; ``defaults`` are those of its generation config."""

    decoder: Decoder
    weights: WeightSource
    tokenizer: Tokenizer
    template: TemplateSource | None
    defaults: SamplingParams


class LanguageModel:
    """Made by ``snell.llm.load``.  ``context`` is the most tokens of a prompt and its continuation together."""

    def __init__(
        self,
        parts: LanguageModelParts,
        compiler: Compiler,
        *,
        context: int,
        kv_dtype: DType,
        chunk: int = PREFILL_CHUNK,
    ) -> None:
        self.parts = parts
        self._compiler = compiler
        self._cache = parts.decoder.sizes.cache(context, kv_dtype)
        self._chunk = min(chunk, context)
        self._programs: dict[StepResult, SizedProgram] = {}
        self._lock = Lock()
        self._grammars: GrammarTokens | None = None
        self._grammar_lock = Lock()

    def __repr__(self) -> str:
        return f"<LanguageModel of {self.vocab_size} tokens; context {self.context}, KV cache {self.kv_dtype}>"

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self.parts.tokenizer

    @property
    def context(self) -> int:
        """The most tokens that a prompt and its continuation may have together."""
        return self._cache.capacity

    @property
    def kv_dtype(self) -> DType:
        """The element type of the KV cache."""
        return self._cache.dtype

    @property
    def vocab_size(self) -> int:
        """The number of logits."""
        return self.parts.decoder.sizes.vocabulary

    @property
    def has_chat_template(self) -> bool:
        """Whether ``generate`` takes messages."""
        return self.parts.template is not None

    @overload
    def generate(
        self, prompt: Prompt, *, stream: Literal[True], **options: Unpack[GenerateKeywords]
    ) -> GenerationStream: ...
    @overload
    def generate(  # pyright: ignore[reportOverlappingOverload]  # a string is a sequence of strings to the checker
        self, prompt: Prompt, *, stream: Literal[False] = False, **options: Unpack[GenerateKeywords]
    ) -> Generation: ...
    @overload
    def generate(
        self, prompt: Sequence[Prompt], *, stream: Literal[False] = False, **options: Unpack[GenerateKeywords]
    ) -> list[Generation]: ...

    def generate(
        self, prompt: Prompt | Sequence[Prompt], *, stream: bool = False, **options: Unpack[GenerateKeywords]
    ) -> Generation | list[Generation] | GenerationStream:
        """Continue a text, answer a conversation, or do so for a list of either; see ``GenerateOptions``.

        What a model thinks before it answers messages is the result's ``thinking``, where its chat template has
        tags for it; a text that is continued stays whole. ``stream=True`` returns a closable iterator of chunks.
        Raises ContextLengthError where the prompt and ``max_tokens`` do not fit the context, before anything runs.
        """
        checked = GenerateOptions.of_keywords(options)
        if is_batch(prompt):
            if stream:
                raise UnsupportedError("stream=True takes one prompt; call generate for each of them")
            return [self._stream(one, checked, finish=True).result for one in cast("Sequence[Prompt]", prompt)]
        started = self._stream(cast("Prompt", prompt), checked, finish=not stream)
        return started if stream else started.result

    def logits(self, token_ids: npt.ArrayLike, lengths: Sequence[int] | None = None) -> npt.NDArray[np.float32]:
        """ids (T,) → f32 (T, vocab); ids (B, T), of which the first ``lengths`` of each row count → (B, T, vocab).

        Row t follows from ids[: t + 1].  Rows behind a length are 0.
        """
        ids = np.asarray(token_ids)
        if ids.dtype.kind not in "iu" and ids.size:
            raise ConfigError(
                f"logits expected token ids, whole numbers, received {token_ids!r:.80}; "
                "for a text write model.logits(model.tokenizer.encode(text))"
            )
        if ids.ndim == 1 and lengths is None:
            return self._all_rows(StepResult.ALL_LOGITS, ids.tolist())
        if ids.ndim != 2:
            raise ShapeError(f"logits expected token ids (T,), or (B, T) with lengths, received shape {ids.shape}")
        counts = [ids.shape[1]] * ids.shape[0] if lengths is None else list(lengths)
        if len(counts) != ids.shape[0] or not all(0 < count <= ids.shape[1] for count in counts):
            raise ShapeError(f"logits expected {ids.shape[0]} lengths of 1 to {ids.shape[1]}, received {counts}")
        result = np.zeros((*ids.shape, self.vocab_size), np.float32)
        for row, count in enumerate(counts):
            result[row, :count] = self._all_rows(StepResult.ALL_LOGITS, ids[row, :count].tolist())
        return result

    def embed(
        self,
        texts: str | Sequence[str | Sequence[int]],
        pooling: str | None = None,
        normalize: bool = True,
        dimensions: int | None = None,
        truncate: bool = False,
    ) -> npt.NDArray[np.float32]:
        """f32 (texts, d): each text's normalised hidden state, of the last token or the mean (``pooling``)."""
        chosen = pooling_named(pooling, Pooling.LAST)
        rows: list[npt.NDArray[np.float32]] = []
        for ids in fitted_ids(self.tokenizer, texts, self.context, truncate):
            states = self._all_rows(StepResult.HIDDEN, ids)
            match chosen:
                case Pooling.MEAN:
                    rows.append(states.mean(axis=0, dtype=np.float64).astype(np.float32))
                case Pooling.LAST:
                    rows.append(states[-1])
                case Pooling.CLS:
                    raise UnsupportedError("pooling 'cls': the first token of a decoder sees nothing; use last or mean")
        return finished_vectors(np.stack(rows) if rows else None, normalize, dimensions)

    def planned(
        self, prompt: Prompt, options: GenerateOptions, most: int | None = None, *, split_thinking: bool = False
    ) -> GeneratedText:
        """The text that ``generate`` would write, for whoever computes its logits; ContextLengthError as there.

        ``most`` tokens where the options name no limit and the context has room for them.  With ``split_thinking`` what
        a model thinks before it answers is no part of its text.
        """
        rules = self._rules(options, split_thinking)
        tools = None if options.tool_choice == "none" else options.tools
        ids = prompt_ids(prompt, self.tokenizer, lambda: self._template, tools, options.template_variables)
        return self._text(ids, options, rules, self._tokens(len(ids), options.max_tokens, most))

    def another(self, text: GeneratedText, options: GenerateOptions, *, split_thinking: bool = False) -> GeneratedText:
        """One more text that follows the same prompt, under options that differ in their seed."""
        rules = self._rules(options, split_thinking)
        return self._text(text.plan.prompt, options, rules, text.plan.max_tokens)

    def prompt_logprobs(self, token_ids: Sequence[int], top: int) -> Iterator[TokenLogprob]:
        """ln p of each token but the first, given those before it, and the ``top`` likeliest tokens in its place.

        Computed a chunk at a time on a fresh cache; leaving the iterator stops the work.
        """
        following = iter(token_ids[1:])
        session = Session(self._program(StepResult.ALL_LOGITS), self._cache, self._chunk)
        for rows in session.results(token_ids):
            yield from (token_logprob(token, row, top) for row, token in zip(rows, following, strict=False))

    def batch_programs(self, places: int) -> BatchPrograms:
        """The passes over ``places`` texts at once, compiled now."""
        parts, cache = self.parts, self._cache
        content = f"batch {places} {cache} {parts.decoder!r}\n{parts.weights.signature()}"

        def build() -> Program:
            return programs.batch_program(parts.decoder, parts.weights, cache, places)

        batch = self._compiler.compile(weights_recipe(content, build, parts.weights))
        prompt = self._program(StepResult.LAST_LOGITS).largest()
        return batch_programs.BatchPrograms(prompt, batch, cache, places=places, chunk=self._chunk)

    def _stream(self, prompt: Prompt, options: GenerateOptions, *, finish: bool) -> GenerationStream:
        session = Session(self._program(StepResult.LAST_LOGITS), self._cache, self._chunk)
        stream = GenerationStream(self.planned(prompt, options, split_thinking=is_conversation(prompt)), session)
        if finish:
            for _ in stream:
                pass
        return stream

    def _rules(self, options: GenerateOptions, split_thinking: bool) -> TextRules | None:
        """What the options demand of the text; None where that is nothing."""
        demands = (options.json_schema, options.grammar, options.tools)
        if not split_thinking and all(demand is None for demand in demands):
            return None
        template = None if self.parts.template is None else self.parts.template.text
        return text_rules.text_rules(options, template, split_thinking=split_thinking)

    def _text(self, ids: Sequence[int], options: GenerateOptions, rules: TextRules | None, most: int) -> GeneratedText:
        params = options.sampling(self.parts.defaults)
        self._check_bias(params)
        sampler = Sampler(params, ids)
        tokenizer = self.tokenizer
        if rules is None:
            plan = GenerationPlan(ids, most, tokenizer.eos_ids, options.logprobs)
            return GeneratedText(plan, sampler, TextStream(tokenizer, options.stop_strings))
        text = TextStream(tokenizer, options.stop_strings, shown=rules.shown(tokenizer))
        plan = GenerationPlan(
            ids,
            most,
            tokenizer.eos_ids,
            options.logprobs,
            rules.constraint(tokenizer, self._grammar_tokens),
            rules.call_reader(),
            rules.thinking_reader(tokenizer, ids),
            rules.think(tokenizer),
        )
        return GeneratedText(plan, sampler, text)

    def _tokens(self, prompt: int, asked: int | None, most: int | None) -> int:
        """The most tokens that may follow a prompt of so many."""
        room = self.context - prompt
        wanted = asked if asked is not None else room if most is None else min(room, most)
        if wanted > room or room < 0:
            both = "does" if asked is None else f"and max_tokens={wanted} do"
            raise ContextLengthError(
                f"a prompt of {prompt} tokens {both} not fit the context of {self.context} "
                "tokens; shorten the prompt, ask for fewer tokens, or load the model with a larger context"
            )
        return wanted

    def _check_bias(self, params: SamplingParams) -> None:
        """Before anything runs."""
        largest = max(params.logit_bias or (), default=0)
        if largest >= self.vocab_size:
            raise OutOfRangeError(
                f"logit_bias: token {largest} is outside of the vocabulary of {self.vocab_size} tokens"
            )

    def _grammar_tokens(self) -> GrammarTokens:
        """Made for the first text that needs it, and once: of a large vocabulary it takes seconds."""
        with self._grammar_lock:
            if self._grammars is None:
                self._grammars = constraint.GrammarTokens(self.tokenizer, self.vocab_size)
            return self._grammars

    @cached_property
    def _template(self) -> ChatTemplate | None:
        """Compiled for the first conversation; an ill-formed one is a ChatTemplateError then."""
        source = self.parts.template
        return None if source is None else chat_template.ChatTemplate(source.text, source.bos_token, source.eos_token)

    def _all_rows(self, result: StepResult, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """The program's rows for every token, on a fresh cache."""
        if not ids:
            raise ConfigError("expected at least one token id, received none")
        session = Session(self._program(result), self._cache, self._chunk)
        rows: list[Array] = list(session.results(ids))
        return np.concatenate(rows)

    def _program(self, result: StepResult) -> SizedProgram:
        with self._lock:
            if result not in self._programs:
                self._programs[result] = SizedProgram((1, self._chunk), partial(self._variant, result))
            return self._programs[result]

    def prepare(self) -> None:
        """Load, or compile, the programs that ``generate`` uses; otherwise they are when it first needs them."""
        self._program(StepResult.LAST_LOGITS).prepare()

    def explain(self) -> object:
        """A report on the program that decodes one token."""
        parts = self.parts
        return self._compiler.explain(
            programs.step_program(parts.decoder, parts.weights, self._cache, 1, StepResult.LAST_LOGITS)
        )

    def tune(self, seconds: float, progress: Callable[[Moment], None] | None = None) -> list[Tuning]:
        """Search for faster schedules of the programs that ``generate`` uses, an equal share of the time for each.

        What is found is recorded in the cache folder; models that are loaded afterwards use it.
        """
        parts, sizes = self.parts, (1, self._chunk)
        steps = (
            programs.step_program(parts.decoder, parts.weights, self._cache, most, StepResult.LAST_LOGITS)
            for most in sizes
        )
        return [self._compiler.tune(step, seconds / len(sizes), progress) for step in steps]

    def _variant(self, result: StepResult, most: int) -> CompiledProgram:
        """The program for steps of 1 to ``most`` tokens."""
        parts, cache = self.parts, self._cache
        content = f"step {most} {result} {cache} {parts.decoder!r}\n{parts.weights.signature()}"

        def build() -> Program:
            return programs.step_program(parts.decoder, parts.weights, cache, most, result)

        return self._compiler.compile(weights_recipe(content, build, parts.weights))
