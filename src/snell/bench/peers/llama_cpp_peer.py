"""llama.cpp through its Python binding; the GGUF file is the one that snell runs.

A decode figure feeds a fixed token: the work does not depend on which token it is, and the binding's sampler, which
is written in Python, is left out of the time.
"""

from collections.abc import Sequence
from pathlib import Path

from llama_cpp import Llama

from snell.bench.arrays import F32
from snell.bench.cases import GENERATED_TOKENS, GENERATING_CONTEXT, Case, LlmFigure, Quality, Startup, StartupFigure
from snell.bench.cases import Llm as LlmCase
from snell.bench.models import model_path
from snell.bench.peers.child import peak_memory, seconds_until_reported
from snell.bench.peers.judged import Logits, judged
from snell.bench.peers.peer import Gauge, Program, Timed, unsupported
from snell.bench.peers.startup import import_time
from snell.bench.text import CONTEXT as JUDGED_CONTEXT
from snell.config import process_environment

__all__ = ["prepare"]

CONTEXT, FIXED_TOKEN = 1024, 504

_GENERATE = """
from llama_cpp import Llama
model = Llama({path!r}, n_ctx={context}, n_threads={threads}, n_threads_batch={threads}, verbose=False)
model.eval(model.tokenize(b"The capital of France is"))
token = model.sample(temp=0.0)
report(token)
for _ in range({further}):
    model.eval([token])
"""


def prepare(case: Case, threads: int) -> Program:
    """A program for the case; only language models."""
    match case:
        case LlmCase(figure=LlmFigure.FIRST_TOKEN):
            source = _source(case, threads, further=0)
            return Gauge(lambda: seconds_until_reported(source, process_environment()))
        case LlmCase(figure=LlmFigure.MEMORY):
            source = _source(case, threads, further=GENERATED_TOKENS)
            return Gauge(lambda: peak_memory(source, process_environment()))
        case LlmCase():
            return _evaluation(case, threads)
        case Quality():
            return judged(case, threads, lambda path: _logits(path, threads))
        case Startup(figure=StartupFigure.IMPORT):
            return import_time("llama_cpp")
        case _:
            raise unsupported("llama.cpp", case)


def _evaluation(case: LlmCase, threads: int) -> Timed:
    model = Llama(
        str(model_path(case.model)),
        n_ctx=CONTEXT,
        n_batch=512,
        n_threads=threads,
        n_threads_batch=threads,
        verbose=False,
    )

    def empty_cache() -> None:
        model.reset()
        # Depth 0 still needs one token in the cache for the binding to hold logits.
        model.eval([FIXED_TOKEN] * max(1, case.depth))

    def decode() -> None:
        for _ in range(case.tokens):
            model.eval([FIXED_TOKEN])

    if case.figure in {LlmFigure.DECODE_0, LlmFigure.DECODE_128}:
        return Timed(decode, before=empty_cache)
    return Timed(lambda: model.eval([FIXED_TOKEN] * case.tokens), before=model.reset)


def _logits(path: Path, threads: int) -> Logits:
    model = Llama(
        str(path),
        n_ctx=JUDGED_CONTEXT,
        n_batch=JUDGED_CONTEXT,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=True,
        verbose=False,
    )

    def read(ids: Sequence[int]) -> F32:
        model.reset()
        model.eval(ids)
        return model.scores[: len(ids)]

    return read


def _source(case: LlmCase, threads: int, *, further: int) -> str:
    return _GENERATE.format(
        path=str(model_path(case.model)), context=GENERATING_CONTEXT, threads=threads, further=further
    )
