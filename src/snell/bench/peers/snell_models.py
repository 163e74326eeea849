"""snell's whole-model cases: MiniLM, language models, and the start-up figures that need a model."""

import tempfile

import numpy as np

import snell as sn
from snell.bench.cases import GENERATED_TOKENS, GENERATING_CONTEXT, Bert, Llm, LlmFigure, StartupFigure
from snell.bench.minilm import MiniLM, minilm_weights, token_ids
from snell.bench.models import model_path
from snell.bench.peers.child import peak_memory, reading, seconds_until_reported
from snell.bench.peers.peer import Gauge, Program, Timed
from snell.config import process_environment

__all__ = ["compile_minilm", "language_model", "minilm"]

_COMPILE = """
import time
from snell.llm import load
start = time.perf_counter()
load({path!r}).embed(["A man is eating food."])
report(time.perf_counter() - start)
"""

_GENERATE = """
from snell.llm import load
model = load({path!r}, context={context}, threads={threads})
chunks = model.generate("The capital of France is", max_tokens={tokens}, temperature=0.0, stream=True)
next(iter(chunks))
report(0)
for chunk in chunks:
    pass
"""


def minilm(case: Bert, threads: int) -> Program:
    """One executable for every batch and length, its schedules made for the sizes of the suite."""
    model = MiniLM(lambda x, gain, shift, epsilon: sn.layer_norm(x, gain, shift, epsilon=epsilon), sn.gelu, sn.softmax)
    arrays = minilm_weights()

    def forward(ids: sn.Tensor) -> sn.Tensor:
        return model.forward({name: sn.array(array) for name, array in arrays.items()}, ids)

    batch, sequence = sn.Dim("batch", max=1024, typical=(1, 8)), sn.Dim("sequence", max=512, typical=(32, 128))
    precision = "fast" if case.dtype == "bf16" else "default"
    compiled = sn.compile(forward, dims={"ids": (batch, sequence)}, precision=precision)
    ids = token_ids(case)
    return Timed(lambda: compiled(ids), lambda result: np.asarray(result))


def language_model(case: Llm, threads: int) -> Program:
    """Figures of generating with a GGUF model."""
    match case.figure:
        case LlmFigure.FIRST_TOKEN:
            source = _generating(case, threads, 1)
            return Gauge(lambda: seconds_until_reported(source, process_environment()))
        case LlmFigure.MEMORY:
            source = _generating(case, threads, GENERATED_TOKENS)
            return Gauge(lambda: peak_memory(source, process_environment()))
        case _:
            return _generation(case, threads)


def _generating(case: Llm, threads: int, tokens: int) -> str:
    path = str(model_path(case.model))
    return _GENERATE.format(path=path, context=GENERATING_CONTEXT, threads=threads, tokens=tokens)


def _generation(case: Llm, threads: int) -> Gauge:
    model = sn.llm.load(model_path(case.model), threads=threads)
    decoding = case.figure in {LlmFigure.DECODE_0, LlmFigure.DECODE_128}
    # " the" is one token of every vocabulary here; the timings say how many tokens there were.
    prompt = " the" * (max(1, case.depth) if decoding else case.tokens)

    def read() -> float:
        timings = model.generate(prompt, max_tokens=case.tokens if decoding else 1, temperature=0.0).timings
        return timings.decode_seconds if decoding else timings.prefill_seconds

    return Gauge(read)


def compile_minilm(figure: StartupFigure) -> Gauge:
    """Seconds to load MiniLM and embed one sentence, with an empty cache or with a filled one."""
    if figure is StartupFigure.COMPILE_COLD:
        return Gauge(_cold)
    return Gauge(lambda: reading(_COMPILE.format(path=str(model_path("minilm"))), process_environment()))


def _cold() -> float:
    with tempfile.TemporaryDirectory() as folder:
        return reading(
            _COMPILE.format(path=str(model_path("minilm"))), process_environment() | {"SNELL_CACHE_DIR": folder}
        )
