"""The programs of a language model: one step of a decoder, and the embedding of a batch of texts by an encoder.

Each is traced once with symbolic sizes and holds for every length.
"""

from typing import assert_never

from snell.dtypes import i32
from snell.frontend.context import Trace
from snell.frontend.ops.creation import iota
from snell.frontend.ops.movement import crop
from snell.frontend.tensor import Tensor
from snell.graph.primitives import Input
from snell.llm.batched_cache import BatchedCache
from snell.llm.cache import CacheShape
from snell.llm.compiler_protocol import Program
from snell.llm.families import decoder_step
from snell.llm.families.decoder import Decoder
from snell.llm.families.encoder import Encoder, Pooling
from snell.llm.families.pooled import pooled
from snell.llm.step import LENGTHS, PAST, POSITIONS, RESULT, TEXTS, TOKENS, StepResult
from snell.llm.stored_weight import WeightSource
from snell.llm.traced_cache import TracedCache
from snell.llm.weights import Weights
from snell.symbolic import Dim

__all__ = ["batch_program", "embedding_program", "step_program"]


def step_program(
    decoder: Decoder, source: WeightSource, cache: CacheShape, chunk: int, result: StepResult = StepResult.LAST_LOGITS
) -> Program:
    """tokens i32 (tokens,) after ``past`` positions of the cache → the result, and the cache's arrays.

    1 to ``chunk`` tokens a call; past + tokens must not exceed the cache's capacity.
    """
    trace = Trace()
    tokens = Dim(TOKENS, min=1, max=min(chunk, cache.capacity), typical=(1, chunk))
    past = Dim(PAST, min=0, max=cache.capacity - 1, typical=(0, 128))
    ids = Tensor(trace.input(Input(TOKENS, (tokens * 1,), i32)), trace)
    weights, traced_cache = Weights(trace, source), TracedCache(trace, cache, past, tokens)
    hidden = decoder_step.hidden_states(decoder, weights, ids, traced_cache)
    match result:
        case StepResult.LAST_LOGITS:
            # Only the last token's row meets the vocabulary.
            value = decoder_step.logits(decoder, weights, crop(hidden, 0, tokens - 1, 1)).squeeze(0)
        case StepResult.ALL_LOGITS:
            value = decoder_step.logits(decoder, weights, hidden)
        case StepResult.HIDDEN:
            value = hidden
        case _:
            assert_never(result)
    return Program(trace.graph([(RESULT, value.operand), *traced_cache.outputs()]), weights.frozen, weights.constants)


def batch_program(decoder: Decoder, source: WeightSource, cache: CacheShape, texts: int) -> Program:
    """The next token of each of several texts, i32 (texts,), and its position → logits f32 (texts, vocabulary).

    Each text has cache arrays of its own, whose names begin with ``text_prefix``, and its length is ``text_past``.
    """
    trace = Trace()
    ids, positions = (Tensor(trace.input(Input(name, (texts,), i32)), trace) for name in (TOKENS, POSITIONS))
    weights, caches = Weights(trace, source), BatchedCache(trace, cache, positions, texts)
    hidden = decoder_step.hidden_states(decoder, weights, ids, caches)
    value = decoder_step.logits(decoder, weights, hidden)
    return Program(trace.graph([(RESULT, value.operand), *caches.outputs()]), weights.frozen, weights.constants)


def embedding_program(encoder: Encoder, source: WeightSource, context: int, pooling: Pooling) -> Program:
    """tokens i32 (texts, tokens), padded with anything in range, lengths i32 (texts,) → f32 (texts, width)."""
    trace = Trace()
    texts, tokens = Dim(TEXTS, min=1, max=1 << 16, typical=(1, 32)), Dim(TOKENS, min=1, max=context, typical=(16, 128))
    ids = Tensor(trace.input(Input(TOKENS, (texts * 1, tokens * 1), i32)), trace)
    lengths = Tensor(trace.input(Input(LENGTHS, (texts * 1,), i32)), trace)
    weights = Weights(trace, source)
    mask = iota(tokens, i32, trace=trace) < lengths.unsqueeze(1)
    vectors = pooled(encoder.hidden(weights, ids, mask), lengths, pooling)
    return Program(trace.graph([(RESULT, vectors.operand)]), weights.frozen, weights.constants)
