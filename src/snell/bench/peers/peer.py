"""What a worker asks of an implementation: ``prepare`` a case, giving a ``Program`` that it can run and time.

An implementation is one module of this package with a function ``prepare(case, threads) -> Program``. It raises
``UnsupportedError`` for a case that it cannot run. Array implementations give an ``ArrayLibrary``, a table of
functions over their own arrays, and let ``array_program`` do the rest.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from snell.bench.arrays import ArrayCase, inputs
from snell.bench.cases import Attention, Case, Fused, FusedLine, Matmul
from snell.errors import UnsupportedError

__all__ = ["ArrayLibrary", "Gauge", "Judged", "Program", "Timed", "array_program", "unsupported"]

# Foreign arrays: each library has its own type.
ForeignArray = Any

_WAKING_SECONDS = 0.01  # measured: after a pause of 50 ms the first two of a program's calls take half as long again


@dataclass(frozen=True, slots=True)
class Timed:
    """A program that is called and timed.

    ``call`` returns when its result is complete; ``before`` runs untimed ahead of every call; ``output`` gives the
    result of a call as float32 for the check against the reference, or is None where there is no numeric answer.
    """

    call: Callable[[], ForeignArray]
    output: Callable[[ForeignArray], np.ndarray] | None = None
    before: Callable[[], None] | None = None

    def measure(self, inner: int) -> list[float]:
        """Seconds of one call: the mean over ``inner`` calls, or each call's own where ``before`` comes between."""
        if self.before is not None:
            return [self._once(self.before) for _ in range(inner)]
        self._wake()
        start = time.perf_counter()
        for _ in range(inner):
            self.call()
        return [(time.perf_counter() - start) / inner]

    def _wake(self) -> None:
        """Calls that do not count: since the last turn, other processes have had the caches and the threads slept."""
        end = time.perf_counter() + _WAKING_SECONDS
        self.call()
        while time.perf_counter() < end:
            self.call()

    def _once(self, before: Callable[[], None]) -> float:
        before()
        start = time.perf_counter()
        self.call()
        return time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Gauge:
    """A program that measures itself, such as the start of a process: ``read`` returns seconds or bytes."""

    read: Callable[[], float]

    def measure(self, inner: int) -> list[float]:
        return [self.read() for _ in range(inner)]


@dataclass(frozen=True, slots=True)
class Judged:
    """A program that is judged by its results: ``read`` returns a number a prediction, and runs once."""

    read: Callable[[], list[float]]

    def measure(self, inner: int) -> list[float]:
        return self.read()


Program = Timed | Gauge | Judged


@dataclass(frozen=True, slots=True)
class ArrayLibrary:
    """The functions of an array library that the array cases need.

    ``compile`` wraps a function once per case, ``put`` makes the library's array from float32 (``dtype`` is f32 or
    bf16), ``wait`` blocks until a result is complete, ``get`` gives it as float32. ``attention`` takes q, k, v and
    whether it is causal. ``linear`` gives the product with a constant right operand as a function of the left one;
    without it that is a function which closes over the operand.
    """

    name: str
    put: Callable[[np.ndarray, str], ForeignArray]
    get: Callable[[ForeignArray], np.ndarray]
    matmul: Callable[..., ForeignArray]
    fused: Mapping[FusedLine, Callable[..., ForeignArray]]
    attention: Callable[..., ForeignArray]
    compile: Callable[[Callable[..., ForeignArray]], Callable[..., ForeignArray]] = lambda function: function
    wait: Callable[[ForeignArray], object] = lambda result: result
    dtypes: frozenset[str] = frozenset({"f32", "bf16"})
    linear: Callable[[ForeignArray], Callable[[ForeignArray], ForeignArray]] | None = None


def array_program(library: ArrayLibrary, case: ArrayCase) -> Timed:
    """A case of one array operation, as a program of that library."""
    dtype = case.dtype if isinstance(case, Matmul) else "f32"
    if dtype not in library.dtypes:
        raise unsupported(library.name, case)
    operands = [library.put(operand, dtype) for operand in inputs(case)]
    if isinstance(case, Matmul) and case.constant:
        function = library.compile(_linear(library, operands.pop()))
    else:
        function = library.compile(_function(library, case))

    def call() -> ForeignArray:
        result = function(*operands)
        library.wait(result)
        return result

    return Timed(call, library.get)


def _linear(library: ArrayLibrary, weight: ForeignArray) -> Callable[[ForeignArray], ForeignArray]:
    if library.linear is not None:
        return library.linear(weight)
    return lambda a: library.matmul(a, weight)


def unsupported(implementation: str, case: Case) -> UnsupportedError:
    """The error that says that an implementation does not run a case."""
    return UnsupportedError(f"{implementation} does not run {case.name}")


def _function(library: ArrayLibrary, case: ArrayCase) -> Callable[..., ForeignArray]:
    match case:
        case Matmul():
            return library.matmul
        case Fused(line=line):
            if line not in library.fused:
                raise unsupported(library.name, case)
            return library.fused[line]
        case Attention(causal=causal):
            return lambda q, k, v: library.attention(q, k, v, causal)
        case _:
            assert_never(case)
