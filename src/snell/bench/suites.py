"""The named suites: which cases ``snell bench SUITE`` runs. A case's full name works as a suite of one."""

from snell.bench.cases import (
    Attention,
    Bert,
    Case,
    Fused,
    FusedLine,
    Llm,
    LlmFigure,
    Matmul,
    Quality,
    QualityFigure,
    Serve,
    ServeFigure,
    Startup,
    StartupFigure,
    Train,
    parse_case,
)
from snell.bench.training import TrainModel
from snell.errors import UnsupportedError

__all__ = ["SUITES", "suite"]

_MATMUL_SIZES = (
    (64, 64, 64),
    (128, 128, 128),
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (1, 4096, 4096),
    (8, 4096, 4096),
    (32, 768, 3072),
    (128, 768, 768),
)
_FUSED_LINES = (
    (FusedLine.ADD, (1024, 4096)),
    (FusedLine.SOFTMAX, (64, 4096)),
    (FusedLine.SOFTMAX, (12, 512, 512)),
    (FusedLine.LAYER_NORM, (512, 768)),
    (FusedLine.RMS_NORM, (512, 768)),
    (FusedLine.GELU_ERF, (1024, 4096)),
    (FusedLine.GELU_TANH, (1024, 4096)),
    (FusedLine.EPILOGUE, (512, 768)),
    (FusedLine.SUM, (4096, 4096)),
)
_SEQUENCES = (128, 512, 2048, 8192)
_BERT_SIZES = ((1, 32), (1, 128), (8, 128))
_LLMS = ("smollm2", "gemma3-270m")
_FORMATS = ("q4_0", "q8_0", "q4_k_m", "q5_k_m", "q6_k")
_SPEEDS = (LlmFigure.PREFILL_128, LlmFigure.PREFILL_512, LlmFigure.DECODE_0, LlmFigure.DECODE_128)

SUITES: dict[str, tuple[Case, ...]] = {
    "matmul": tuple(
        Matmul(*size, dtype, constant)
        for dtype in ("f32", "bf16")
        for size in _MATMUL_SIZES
        for constant in (False, True)
    ),
    "fused": tuple(Fused(line, shape) for line, shape in _FUSED_LINES),
    "attention": tuple(Attention(causal, sequence) for causal in (False, True) for sequence in _SEQUENCES),
    "bert": tuple(Bert(batch, sequence, dtype) for dtype in ("f32", "bf16") for batch, sequence in _BERT_SIZES),
    "llm": tuple(Llm(model, figure) for model in _LLMS for figure in LlmFigure),
    "formats": tuple(Llm(f"smollm2-{name}", figure) for name in _FORMATS for figure in _SPEEDS),
    "quality": tuple(Quality(model, figure) for model in _LLMS for figure in QualityFigure),
    "serve": tuple(Serve("smollm2", figure) for figure in ServeFigure),
    "startup": tuple(Startup(figure) for figure in StartupFigure),
    "train": tuple(Train(model) for model in TrainModel),
}


def suite(name: str) -> tuple[Case, ...]:
    """The cases of a suite, of ``all``, the one case of that name, the part of a suite with that prefix, or a model's."""
    if name == "all":
        return tuple(case for cases in SUITES.values() for case in cases)
    if name in SUITES:
        return SUITES[name]
    exact = tuple(case for cases in SUITES.values() for case in cases if case.name == name)
    if exact:
        return exact  # one line's name may begin another's: `…/f32` and `…/f32/const`
    part = tuple(case for cases in SUITES.values() for case in cases if case.name.startswith(name + "/"))
    if part:
        return part
    kind, _, model = name.partition("/")
    if kind == "quality" and model and "/" not in model:
        return tuple(Quality(model, figure) for figure in QualityFigure)
    if "/" not in name:
        raise UnsupportedError(f"suite {name!r}: expected one of {', '.join(SUITES)}, all, or a benchmark's full name")
    return (parse_case(name),)
