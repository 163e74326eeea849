"""What is measured: one frozen class a kind of benchmark, with its name, its unit and the work it stands for.

A case is a value: ``parse_case(case.name) == case``, so a worker process is told only the name. ``report(seconds)``
turns the time of one call into the case's unit. ``flops`` and ``bytes`` count the arithmetic and the memory that
cannot be avoided; they give the machine's limit that is printed beside a figure, and are 0 where no limit is claimed.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import ClassVar

from snell.bench.serve_case import Serve, ServeFigure
from snell.bench.training import TrainModel, training_flops
from snell.errors import UnsupportedError

__all__ = [
    "Attention",
    "Bert",
    "Case",
    "Fused",
    "FusedLine",
    "Llm",
    "LlmFigure",
    "Matmul",
    "Quality",
    "QualityFigure",
    "Serve",
    "ServeFigure",
    "Startup",
    "StartupFigure",
    "Train",
    "parse_case",
]

HEADS, HEAD_DIM = 12, 64
LONGEST_OF_PEERS = 4096
MINILM_LAYERS, MINILM_DIM, MINILM_HIDDEN = 6, 384, 1536
DECODED_TOKENS = 32
# Of a process that is measured as a whole, from its start to its end.
GENERATED_TOKENS, GENERATING_CONTEXT = 64, 2048


class FusedLine(StrEnum):
    """The element-wise and row-wise programs that a fusing compiler should run at the speed of memory."""

    ADD = "add"
    SOFTMAX = "softmax"
    LAYER_NORM = "layernorm"
    RMS_NORM = "rmsnorm"
    GELU_ERF = "gelu_erf"
    GELU_TANH = "gelu_tanh"
    EPILOGUE = "bias_gelu_residual_layernorm"
    SUM = "sum"


class LlmFigure(StrEnum):
    """What is measured of a language model."""

    PREFILL_128 = "prefill128"
    PREFILL_512 = "prefill512"
    DECODE_0 = "decode@0"
    DECODE_128 = "decode@128"
    FIRST_TOKEN = "first_token"
    MEMORY = "memory"


class QualityFigure(StrEnum):
    """What is measured of a quantised language model's predictions, against those of its weights in f32."""

    MEAN_DIVERGENCE = "kl_mean"
    HIGH_DIVERGENCE = "kl_p99"
    AGREEMENT = "top1"
    PERPLEXITY = "perplexity"
    PERPLEXITY_RATIO = "perplexity_ratio"


class StartupFigure(StrEnum):
    """What is measured of a library before it does any work."""

    IMPORT = "import"
    COMPILE_COLD = "compile_minilm_cold"
    COMPILE_CACHED = "compile_minilm_cached"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class Matmul:
    """``(m, k) @ (k, n)``; a ``constant`` right operand is known when compiling and may be laid out in advance."""

    m: int
    k: int
    n: int
    dtype: str
    constant: bool = False
    unit: ClassVar[str] = "GFLOP/s"

    @property
    def name(self) -> str:
        return f"matmul/{self.m}x{self.k}x{self.n}/{self.dtype}{'/const' if self.constant else ''}"

    @property
    def flops(self) -> int:
        return 2 * self.m * self.k * self.n

    @property
    def bytes(self) -> int:
        return _width(self.dtype) * (self.m * self.k + self.k * self.n + self.m * self.n)

    def report(self, seconds: float) -> float:
        return self.flops / seconds / 1e9


@dataclass(frozen=True, slots=True)
class Fused:
    """One fused line in f32; reductions run over the last axis, ``sum`` over all axes."""

    line: FusedLine
    shape: tuple[int, ...]
    unit: ClassVar[str] = "us"
    flops: ClassVar[int] = 0

    @property
    def name(self) -> str:
        return f"fused/{self.line}_{'x'.join(map(str, self.shape))}"

    @property
    def bytes(self) -> int:
        arrays = {FusedLine.ADD: 3, FusedLine.EPILOGUE: 3, FusedLine.SUM: 1}.get(self.line, 2)
        return 4 * arrays * prod(self.shape)

    def report(self, seconds: float) -> float:
        return seconds * 1e6


@dataclass(frozen=True, slots=True)
class Attention:
    """Scaled dot-product attention, (1, 12, sequence, 64) in f32.

    Long sequences are for snell alone: others may store every score, 12 * 8192² of them in 3 GiB.
    """

    causal: bool
    sequence: int
    unit: ClassVar[str] = "ms"

    @property
    def is_alone(self) -> bool:
        """Whether only snell runs it."""
        return self.sequence > LONGEST_OF_PEERS

    @property
    def name(self) -> str:
        return f"attention/{'causal' if self.causal else 'full'}/{self.sequence}"

    @property
    def flops(self) -> int:
        rows = self.sequence
        pairs = rows * (rows + 1) // 2 if self.causal else rows * rows
        return 4 * HEADS * HEAD_DIM * pairs

    @property
    def bytes(self) -> int:
        return 4 * 4 * HEADS * self.sequence * HEAD_DIM

    def report(self, seconds: float) -> float:
        return seconds * 1e3


@dataclass(frozen=True, slots=True)
class Bert:
    """All-MiniLM-L6-v2 from token ids to the last hidden state, no padding."""

    batch: int
    sequence: int
    dtype: str
    unit: ClassVar[str] = "ms"
    bytes: ClassVar[int] = 0

    @property
    def name(self) -> str:
        return f"bert/{self.batch}x{self.sequence}/{self.dtype}"

    @property
    def flops(self) -> int:
        tokens = self.batch * self.sequence
        products = 4 * MINILM_DIM**2 + 2 * MINILM_DIM * MINILM_HIDDEN + 2 * self.sequence * MINILM_DIM
        return 2 * MINILM_LAYERS * tokens * products

    def report(self, seconds: float) -> float:
        return seconds * 1e3


@dataclass(frozen=True, slots=True)
class Llm:
    """One figure of a language model; a decode figure is the mean over 32 tokens from the given depth."""

    model: str
    figure: LlmFigure
    flops: ClassVar[int] = 0
    bytes: ClassVar[int] = 0

    @property
    def name(self) -> str:
        return f"llm/{self.model}/{self.figure}"

    @property
    def tokens(self) -> int:
        """Tokens that one timed call processes."""
        match self.figure:
            case LlmFigure.PREFILL_128:
                return 128
            case LlmFigure.PREFILL_512:
                return 512
            case LlmFigure.DECODE_0 | LlmFigure.DECODE_128:
                return DECODED_TOKENS
            case LlmFigure.FIRST_TOKEN | LlmFigure.MEMORY:
                return 1

    @property
    def depth(self) -> int:
        """Tokens in the cache before the timed call."""
        return 128 if self.figure is LlmFigure.DECODE_128 else 0

    @property
    def unit(self) -> str:
        match self.figure:
            case LlmFigure.FIRST_TOKEN:
                return "ms"
            case LlmFigure.MEMORY:
                return "MiB"
            case _:
                return "tokens/s"

    def report(self, reading: float) -> float:
        match self.figure:
            case LlmFigure.FIRST_TOKEN:
                return reading * 1e3
            case LlmFigure.MEMORY:
                return reading / 2**20
            case _:
                return self.tokens / reading


@dataclass(frozen=True, slots=True)
class Quality:
    """One figure of a language model's predictions of a text: KL divergence from the same weights in f32 (nats; the
    mean, the 99th percentile), how often both find the same token likeliest, perplexity, and that over the f32 model's.

    What is read is a number a prediction; ``divergence.statistic`` makes the figure of them.
    """

    model: str
    figure: QualityFigure
    flops: ClassVar[int] = 0
    bytes: ClassVar[int] = 0

    @property
    def name(self) -> str:
        return f"quality/{self.model}/{self.figure}"

    @property
    def unit(self) -> str:
        match self.figure:
            case QualityFigure.MEAN_DIVERGENCE | QualityFigure.HIGH_DIVERGENCE:
                return "nats"
            case QualityFigure.AGREEMENT:
                return "%"
            case QualityFigure.PERPLEXITY | QualityFigure.PERPLEXITY_RATIO:
                return ""

    def report(self, reading: float) -> float:
        return reading


@dataclass(frozen=True, slots=True)
class Startup:
    """One figure of a library's start: importing it, compiling a model, calling a compiled function."""

    figure: StartupFigure
    flops: ClassVar[int] = 0
    bytes: ClassVar[int] = 0

    @property
    def name(self) -> str:
        return f"startup/{self.figure}"

    @property
    def unit(self) -> str:
        return "us" if self.figure is StartupFigure.CALL else "ms"

    def report(self, seconds: float) -> float:
        return seconds * (1e6 if self.figure is StartupFigure.CALL else 1e3)


@dataclass(frozen=True, slots=True)
class Train:
    """One step of training: forward, backward and the update, on one batch."""

    model: TrainModel
    unit: ClassVar[str] = "ms"
    bytes: ClassVar[int] = 0

    @property
    def name(self) -> str:
        return f"train/{self.model}"

    @property
    def flops(self) -> int:
        return training_flops(self.model)

    def report(self, seconds: float) -> float:
        return seconds * 1e3


Case = Matmul | Fused | Attention | Bert | Llm | Startup | Train | Serve | Quality


def parse_case(name: str) -> Case:
    """The case of that name; any sizes will do, not only those of a suite."""
    suite, _, rest = name.partition("/")
    parser = _PARSERS.get(suite)
    case = parser(rest) if parser else None
    if case is None:
        raise UnsupportedError(
            f"benchmark {name!r}: expected a name such as {_EXAMPLES}; see `snell bench --list` for all of them"
        )
    return case


def _matmul(text: str) -> Matmul | None:
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)/(f32|bf16)(/const)?", text)
    return Matmul(int(match[1]), int(match[2]), int(match[3]), match[4], match[5] is not None) if match else None


def _fused(text: str) -> Fused | None:
    match = re.fullmatch(rf"({'|'.join(FusedLine)})_(\d+(?:x\d+)*)", text)
    return Fused(FusedLine(match[1]), tuple(int(size) for size in match[2].split("x"))) if match else None


def _attention(text: str) -> Attention | None:
    match = re.fullmatch(r"(full|causal)/(\d+)", text)
    return Attention(match[1] == "causal", int(match[2])) if match else None


def _bert(text: str) -> Bert | None:
    match = re.fullmatch(r"(\d+)x(\d+)/(f32|bf16)", text)
    return Bert(int(match[1]), int(match[2]), match[3]) if match else None


def _llm(text: str) -> Llm | None:
    model, _, figure = text.rpartition("/")
    return Llm(model, LlmFigure(figure)) if model and figure in set(LlmFigure) else None


def _quality(text: str) -> Quality | None:
    model, _, figure = text.rpartition("/")
    return Quality(model, QualityFigure(figure)) if model and figure in set(QualityFigure) else None


def _serve(text: str) -> Serve | None:
    model, _, figure = text.rpartition("/")
    return Serve(model, ServeFigure(figure)) if model and figure in set(ServeFigure) else None


def _startup(text: str) -> Startup | None:
    return Startup(StartupFigure(text)) if text in set(StartupFigure) else None


def _train(text: str) -> Train | None:
    return Train(TrainModel(text)) if text in set(TrainModel) else None


def _width(dtype: str) -> int:
    return 4 if dtype == "f32" else 2


_PARSERS = {
    "matmul": _matmul,
    "fused": _fused,
    "attention": _attention,
    "bert": _bert,
    "llm": _llm,
    "quality": _quality,
    "serve": _serve,
    "startup": _startup,
    "train": _train,
}
_EXAMPLES = "matmul/1024x1024x1024/f32 or fused/softmax_64x4096"
