"""Trials of one kernel: each candidate is compared with the first kernel's results, then timed in turns with it.

The first kernel itself is compared with what its definition says (`search.reference`), before anything is timed.
All of it happens in the worker's process.  Sizes are points: the typical ones are timed, odd ones are only checked, so
that tails of every level are seen.  Where a program's weights do not fit the caches, a few copies of the frozen operands
take turns, as the weights of other layers would.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from snell.errors import SnellError
from snell.loops.ir import Buffer
from snell.loops.parse import parse_kernel
from snell.runtime.binding import Assembled, bind
from snell.runtime.buffers import aligned_empty
from snell.runtime.executable import Bound
from snell.runtime.kernels import KernelCompiler
from snell.runtime.pool import Pool
from snell.search.arrays import Array, difference, largest, operands, shape_at
from snell.search.candidate import Candidate, read_buffers
from snell.search.program import candidate_program
from snell.search.reference import Expected
from snell.targets import Target

__all__ = ["Outcome", "Subject", "Trials", "WrongKernelError", "subject_from_data", "subject_to_data"]

_READINGS, _FIRST_READINGS = 9, 3
_READING_SECONDS = 0.002
_SLOWER = 10.0  # times the first kernel's: given up at the first call
_HOPELESS = 1.25  # times the first kernel's, after a few readings
_MOST_BYTES = 1 << 30
_MOST_COPIES = 16
_ROUND_SECONDS = 0.02  # of one call with each copy
_TRIAL_SECONDS = 0.4


class WrongKernelError(SnellError):
    """The first kernel of a subject does not compute what its definition says: a fault of the compiler."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is searched: the first kernel, sizes to time and sizes to check, terms of its longest sum, how many bytes of
    frozen operands are to pass between two uses of the same ones (0: they stay in the caches), and a sample of what the
    first kernel has to write at the sizes to check (the first ones to time, where there are none)."""

    first: Candidate
    timed: tuple[Mapping[str, int], ...]
    checked: tuple[Mapping[str, int], ...]
    terms: float
    frozen: tuple[str, ...] = ()
    cold_bytes: int = 0
    expected: tuple[Expected, ...] = ()

    @property
    def reference_sizes(self) -> Mapping[str, int]:
        """The sizes that `expected` is for."""
        return (*self.checked, *self.timed)[0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A candidate's time over the first kernel's in the same turns (geometric mean over the sizes), and its seconds; or
    why it was rejected."""

    ratio: float
    seconds: float
    rejected: str | None = None


@dataclass(slots=True)
class _Point:
    """Sizes with operands, and the first kernel's results, calls and seconds of one."""

    sizes: Mapping[str, int]
    operands: list[dict[str, Array]]
    expected: tuple[Array, ...]
    first: list[Bound]
    seconds: float


class Trials:
    """Trials of one subject at a time in this process."""

    def __init__(self, target: Target, pool: Pool) -> None:
        self._target = target
        self._pool = pool
        self._subject: Subject | None = None
        self._timed: list[_Point] = []
        self._checked: list[_Point] = []

    def begin(self, subject: Subject) -> float:
        """Take on a subject: operands, results and time of its first kernel in seconds (all timed sizes together)."""
        self._subject, self._timed, self._checked = subject, [], []
        buffers = read_buffers(subject.first)
        for sizes in (*subject.timed, *subject.checked):
            bytes_read = sum(math.prod(shape_at(b, sizes)) * b.dtype.itemsize for b in buffers)
            if bytes_read > _MOST_BYTES:
                raise SnellError(f"operands of {bytes_read >> 20} MiB are more than a trial may hold")
        first = self._assembled(subject.first)
        self._checked = [self._point(subject, first, buffers, sizes, False) for sizes in subject.checked]
        self._timed = [self._point(subject, first, buffers, sizes, True) for sizes in subject.timed]
        return sum(point.seconds for point in self._timed)

    def attempt(self, candidate: Candidate) -> Outcome:
        """Check and time a candidate."""
        assert self._subject is not None
        try:
            return self._attempt(candidate, self._subject)
        except SnellError as error:
            return Outcome(math.inf, math.inf, f"{type(error).__name__}: {error}")

    def _attempt(self, candidate: Candidate, subject: Subject) -> Outcome:
        ratios: list[float] = []
        total = 0.0
        assembled = self._assembled(candidate)
        calls = [self._calls(assembled, point.operands, point.sizes, point.expected) for point in self._timed]
        for point in self._checked:
            bound = self._calls(assembled, point.operands, point.sizes, point.expected)
            reason = _wrong(bound, point, subject.terms)
            if reason is not None:
                return Outcome(math.inf, math.inf, f"sizes {dict(point.sizes)}: {reason}")
        for point, bound in zip(self._timed, calls, strict=True):
            begin = time.perf_counter()
            reason = _wrong(bound, point, subject.terms)
            if reason is not None:
                return Outcome(math.inf, math.inf, reason)
            if time.perf_counter() - begin > _SLOWER * max(point.seconds, 1e-3) * len(bound) + 0.05:
                return Outcome(math.inf, math.inf, f"more than {_SLOWER:.0f} times as slow as the first kernel")
            ratio, seconds = _in_turns(point, bound)
            ratios.append(ratio)
            total += seconds
            if ratio > _HOPELESS * 2:
                break
        return Outcome(math.exp(statistics.fmean(map(math.log, ratios))), total)

    def _assembled(self, candidate: Candidate) -> Assembled:
        return candidate_program(candidate, KernelCompiler(self._target, _fresh))

    def _point(
        self, subject: Subject, first: Assembled, buffers: Sequence[Buffer], sizes: Mapping[str, int], timed: bool
    ) -> _Point:
        arrays = operands(buffers, sizes)
        frozen = {name: array for name, array in arrays.items() if name in subject.frozen}
        expected = _outputs(subject.first, sizes)
        warm = self._calls(first, [arrays], sizes, expected)
        warm[0]()
        results = tuple(result.copy() for result in warm[0].outputs)
        if sizes == subject.reference_sizes:
            _check(subject, sizes, results)
        copies = _copies(subject, frozen, _reading(warm, 1)) if timed else 1
        if copies == 1:
            return _Point(sizes, [arrays], results, warm, _seconds(warm) if timed else 0.0)
        in_turns = [arrays, *(arrays | {n: a.copy() for n, a in frozen.items()} for _ in range(copies - 1))]
        calls = self._calls(first, in_turns, sizes, expected)
        return _Point(sizes, in_turns, results, calls, _seconds(calls))

    def _calls(
        self,
        assembled: Assembled,
        in_turns: Sequence[dict[str, Array]],
        sizes: Mapping[str, int],
        like: Sequence[Array],
    ) -> list[Bound]:
        out = [_zeros_like(array) for array in like]
        bound: list[Bound] = []
        for arrays in in_turns:
            frozen = {name: arrays[name] for name in assembled.frozen}
            executable = bind(assembled, frozen, self._pool)
            bound.append(executable.bind(out=out, sizes=dict(sizes)))
        return bound


def _copies(subject: Subject, frozen: Mapping[str, Array], seconds: float) -> int:
    """How many copies of the frozen operands take turns: fewer for a long call, whose reading of them hides."""
    own = sum(array.nbytes for array in frozen.values())
    if not own or not subject.cold_bytes:
        return 1
    wanted = min(_MOST_COPIES, math.ceil(subject.cold_bytes / own))
    return max(1, min(wanted, int(_ROUND_SECONDS / max(seconds, 1e-7))))


def _fresh(_: str, build: Callable[[], bytes]) -> bytes:
    return build()


def _outputs(candidate: Candidate, sizes: Mapping[str, int]) -> list[Array]:
    """Zeros for what a candidate writes, in the order of its buffers."""
    return [np.zeros(shape_at(buffer, sizes), buffer.dtype.numpy) for buffer in _written(candidate)]


def _written(candidate: Candidate) -> list[Buffer]:
    return [buffer for buffer in parse_kernel(candidate.kernel).buffers if buffer.name in candidate.writes]


def _check(subject: Subject, sizes: Mapping[str, int], results: Sequence[Array]) -> None:
    """WrongKernelError where the first kernel's results are not what is expected of it."""
    found = dict(zip((buffer.name for buffer in _written(subject.first)), results, strict=True))
    for expected in subject.expected:
        result = found[expected.buffer].reshape(-1)
        sample = result[list(expected.places)]
        values = np.array(expected.values).astype(sample.dtype)
        reason = difference(sample, values, subject.terms, largest(result))
        if reason is not None:
            where = f" at sizes {dict(sizes)}" if sizes else ""
            raise WrongKernelError(f"{expected.buffer}{where}: {reason} in a sample of its values")


def _zeros_like(array: Array) -> Array:
    """Where a result goes: aligned as a program's results are, so that no kernel is timed with luckier lines."""
    result, _ = aligned_empty(array.shape, array.dtype, array.nbytes)
    result[...] = 0
    return result


def _wrong(calls: Sequence[Bound], point: _Point, terms: float) -> str | None:
    """How the first call's results differ from the first kernel's; every call runs once."""
    for call in calls:
        call()
    for result, expected in zip(calls[0].outputs, point.expected, strict=True):
        reason = difference(result, expected, terms)
        if reason is not None:
            return reason
    return None


def _seconds(calls: Sequence[Bound]) -> float:
    """Seconds of one call, the least of a few readings."""
    once = _reading(calls, 1)
    repeats = _repeats(once * len(calls))
    return min(once, *(_reading(calls, repeats) for _ in range(_FIRST_READINGS)))


def _repeats(round_seconds: float) -> int:
    return max(1, math.ceil(_READING_SECONDS / max(round_seconds, 1e-7)))


def _reading(calls: Sequence[Bound], repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        for call in calls:
            call()
    return (time.perf_counter() - begin) / (repeats * len(calls))


def _in_turns(point: _Point, second: Sequence[Bound]) -> tuple[float, float]:
    """The median ratio of the second's time over the first kernel's in neighbouring readings, and its seconds."""
    once = point.seconds * len(point.first)
    repeats = _repeats(once)
    readings = int(_TRIAL_SECONDS / (2 * repeats * once))
    pairs: list[tuple[float, float]] = []
    for number in range(max(_FIRST_READINGS, min(_READINGS, readings))):
        pairs.append((_reading(point.first, repeats), _reading(second, repeats)))
        if number + 1 == _FIRST_READINGS and min(b / a for a, b in pairs) > _HOPELESS:
            break
    return statistics.median(b / a for a, b in pairs), statistics.median(b for _, b in pairs)


def subject_to_data(subject: Subject) -> dict[str, Any]:
    """The subject as JSON has it."""
    return {
        "first": subject.first.to_data(), "timed": [dict(s) for s in subject.timed],
        "checked": [dict(s) for s in subject.checked], "terms": subject.terms, "frozen": list(subject.frozen),
        "cold_bytes": subject.cold_bytes, "expected": [asdict(item) for item in subject.expected],
    }  # fmt: skip


def subject_from_data(data: Mapping[str, Any]) -> Subject:
    """What `subject_to_data` wrote."""
    return Subject(
        Candidate.from_data(data["first"]), tuple(data["timed"]), tuple(data["checked"]), data["terms"],
        tuple(data["frozen"]), data["cold_bytes"],
        tuple(Expected(e["buffer"], tuple(e["places"]), tuple(e["values"])) for e in data["expected"]),
    )  # fmt: skip
