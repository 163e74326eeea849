"""Measuring cases: every implementation of a case is prepared, checked, warmed up, and then timed in turns.

The turns are round-robin, so that a disturbance of the machine falls on all implementations alike; only one process
works at a time. ``run`` yields an ``Outcome`` for every pair of case and implementation, a missing figure included.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from snell.bench.arrays import inputs, reference, tolerance
from snell.bench.cases import (
    Attention,
    Bert,
    Case,
    Fused,
    Llm,
    LlmFigure,
    Matmul,
    Quality,
    Serve,
    Startup,
    StartupFigure,
    Train,
)
from snell.bench.environment import search_environment, worker_environment
from snell.bench.implementations import SEARCHED, SNELL, Implementation
from snell.bench.limits import limit
from snell.bench.measurement import Missing, Outcome, summarise, summarise_quality
from snell.bench.minilm import minilm_reference
from snell.bench.text import JudgedText
from snell.bench.worker_process import WorkerError, WorkerProcess
from snell.config import Config
from snell.errors import UnsupportedError
from snell.runtime.limits import ArithmeticMeter, MachineLimits

__all__ = ["Options", "run"]

JUDGE_SECONDS = 3600.0  # a large vocabulary's logits of some ten thousand tokens, twice
_OWN = (SNELL.name, SEARCHED.name)


@dataclass(frozen=True, slots=True)
class Options:
    """How long and how often: one reading lasts at least ``reading_seconds``; ``pause_seconds`` lets the threads of
    the previous implementation stop spinning before the next one is timed."""

    threads: int
    repeats: int = 9
    slow_repeats: int = 3
    reading_seconds: float = 0.05
    warm_up_seconds: float = 0.2
    pause_seconds: float = 0.05
    search_seconds: float = 0.0
    text: JudgedText = field(default_factory=JudgedText)


@dataclass(frozen=True, slots=True)
class _Ready:
    worker: WorkerProcess
    inner: int


def run(
    cases: Sequence[Case],
    implementations: Sequence[Implementation],
    options: Options,
    limits: MachineLimits,
    environ: Mapping[str, str],
    begin: Callable[[Case], None] = lambda case: None,
) -> Iterator[Outcome]:
    """Measure the cases in order; ``begin`` is told before each."""
    environment = worker_environment(environ, options.threads) | options.text.environment()
    workers = [
        WorkerProcess(each.name, options.threads, environment | _own_environment(each, options, environ))
        for each in implementations
    ]
    try:
        meter = ArithmeticMeter(options.threads) if limits.f32_flops_per_second else None
        for case in cases:
            begin(case)
            if isinstance(case, Quality):
                yield from _judge(case, workers)
            else:
                yield from _run_case(case, workers, options, limits, meter)
    finally:
        for worker in workers:
            worker.close()


def _own_environment(implementation: Implementation, options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    if not options.search_seconds:
        return {}
    cache = Config.from_environment(environ).cache_dir
    return search_environment(implementation.name, cache, options.search_seconds)


def _run_case(
    case: Case,
    workers: Sequence[WorkerProcess],
    options: Options,
    limits: MachineLimits,
    meter: ArithmeticMeter | None,
) -> Iterator[Outcome]:
    ready: list[_Ready] = []
    expected = _expected(case)
    for worker in workers:
        if isinstance(case, Attention) and case.is_alone and worker.implementation not in _OWN:
            yield Missing(case, worker.implementation, "a sequence this long is for snell alone", failed=False)
            continue
        try:
            _prepare(worker, case, expected)
            ready.append(_Ready(worker, _warm_up(worker, case, options)))
        except UnsupportedError as error:
            yield Missing(case, worker.implementation, str(error), failed=False)
        except WorkerError as error:
            yield Missing(case, worker.implementation, str(error), failed=True)
    flops: list[float] = []
    beside = (lambda: flops.append(meter.read())) if meter is not None else (lambda: None)
    readings, failures = _take_turns(ready, _repeats(case, options), options.pause_seconds, beside)
    if flops:
        limits = replace(limits, f32_flops_per_second=statistics.median(flops))
    peaks = {each.worker.implementation: each.worker.peak() for each in ready if each.worker.implementation in readings}
    for name, values in readings.items():
        figure = summarise(case, name, values, options.threads, limit(case, limits))
        yield replace(figure, peak_bytes=peaks[name])
    for name, reason in failures.items():
        yield Missing(case, name, reason, failed=True)


def _judge(case: Quality, workers: Sequence[WorkerProcess]) -> Iterator[Outcome]:
    """Each implementation once: nothing is timed, and readings are not of time but of predictions."""
    for worker in workers:
        try:
            worker.prepare(case.name, None)
            yield summarise_quality(case, worker.implementation, worker.measure(1, JUDGE_SECONDS), worker.threads)
        except UnsupportedError as error:
            yield Missing(case, worker.implementation, str(error), failed=False)
        except WorkerError as error:
            yield Missing(case, worker.implementation, str(error), failed=True)


def _expected(case: Case) -> np.ndarray | None:
    match case:
        case Matmul() | Fused() | Attention():
            return reference(case, inputs(case))
        case Bert():
            return minilm_reference(case)
        case Llm() | Startup() | Train() | Serve() | Quality():
            return None


def _prepare(worker: WorkerProcess, case: Case, expected: np.ndarray | None) -> None:
    """Prepare the case and check its result; a wrong result is a ``WorkerError``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output.npy"
        written = worker.prepare(case.name, path if expected is not None else None)
        if expected is None or not written:
            return
        actual = np.load(path)
    if actual.shape != expected.shape:
        raise WorkerError(f"wrong result: expected the shape {expected.shape}, received {actual.shape}")
    error = np.max(np.abs(actual - expected)) / np.max(np.abs(expected))
    # Written so that NaN is wrong too.
    if not error <= _tolerance(case):
        raise WorkerError(f"wrong result: relative error {error:.2g}, expected at most {_tolerance(case):.2g}")


def _tolerance(case: Case) -> float:
    match case:
        case Matmul() | Fused() | Attention():
            return tolerance(case)
        case Bert(dtype="bf16"):
            # Six layers of roundings to 8 bits; measured 0.02 for PyTorch.
            return 0.1
        case _:
            return 1e-4


def _warm_up(worker: WorkerProcess, case: Case, options: Options) -> int:
    """Calls that make one reading long enough to time."""
    if _is_slow(case):
        return 1
    end = time.perf_counter() + options.warm_up_seconds
    seconds = statistics.median(worker.measure(1))
    inner = 1
    while time.perf_counter() < end:
        inner = max(1, round(options.reading_seconds / max(seconds, 1e-7)))
        seconds = statistics.median(worker.measure(min(inner, 100_000)))
    return max(1, min(round(options.reading_seconds / max(seconds, 1e-7)), 100_000))


def _take_turns(
    ready: Sequence[_Ready], repeats: int, pause: float, beside: Callable[[], None]
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Readings of each implementation; ``beside`` takes its turn too."""
    readings: dict[str, list[float]] = {each.worker.implementation: [] for each in ready}
    failures: dict[str, str] = {}
    for _ in range(repeats):
        beside()
        for each in ready:
            name = each.worker.implementation
            if name in failures:
                continue
            time.sleep(pause)
            try:
                readings[name].append(statistics.fmean(each.worker.measure(each.inner)))
            except WorkerError as error:
                failures[name] = str(error)
                del readings[name]
    return readings, failures


def _repeats(case: Case, options: Options) -> int:
    """A few readings where each compiles a model or loads a server."""
    return options.slow_repeats if _is_slow(case) and not isinstance(case, Llm) else options.repeats


def _is_slow(case: Case) -> bool:
    """Whether one reading starts a process or compiles a model, so that none is taken to warm up."""
    match case:
        case Startup(figure=figure):
            return figure is not StartupFigure.CALL
        case Llm(figure=LlmFigure.FIRST_TOKEN | LlmFigure.MEMORY) | Serve():
            return True
        case _:
            return False
