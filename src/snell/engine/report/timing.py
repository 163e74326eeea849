"""How long each kernel takes: its calls alone, on random data of the sizes given, repeated by generated code.

Each distinct kernel is measured once.  Data that fits a cache is in the cache, as it need not be in the whole program.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from snell.compiler.compile import Compilation
from snell.dtypes import u8
from snell.engine.report.costs import plane_bytes
from snell.runtime.executable import Executable
from snell.runtime.pool import Pool
from snell.runtime.program import BufferSlot, Call, Program, Repeat, Role
from snell.symbolic import Dim, as_expr

__all__ = ["kernel_seconds"]

_ROUNDS = Dim("rounds of the measurement", min=0, max=1 << 40)
_MEASURED = 0.02  # seconds a reading takes, where one run takes less
_READINGS = 3


def kernel_seconds(compilation: Compilation, sizes: Mapping[Dim, int], pool: Pool) -> dict[str, float]:
    """Seconds of one run by the kernel's name, the best of a few readings."""
    program = compilation.assembled.program
    planes = plane_bytes(compilation.lowered.graph)
    nbytes = [planes.get(slot.name) or int(slot.nbytes.evaluate(sizes)) for slot in program.buffers]
    return {name: _seconds(program, calls, nbytes, sizes, pool) for name, calls in _calls(program).items()}


def _calls(program: Program) -> dict[str, list[Call]]:
    """The calls of one run of each kernel, by its name: its phases follow each other."""
    found: dict[str, list[Call]] = {}
    for call in program.calls:
        calls = found.setdefault(call.function.split(".")[0], [])
        if all(known.function != call.function for known in calls):
            calls.append(call)
    return found


def _seconds(
    program: Program, calls: Sequence[Call], nbytes: Sequence[int], sizes: Mapping[Dim, int], pool: Pool
) -> float:
    used = sorted({slot for call in calls for slot in call.buffers})
    executable = Executable(_alone(program, calls, used, nbytes), pool=pool)
    generator = np.random.default_rng(0)
    arrays = [_random(program.buffers[slot], nbytes[slot], generator) for slot in used]
    given = {dim.name: size for dim, size in sizes.items()}

    def read(rounds: int) -> float:
        bound = executable.bind(*arrays, sizes=given | {_ROUNDS.name: rounds})
        start = time.perf_counter()
        bound()
        return (time.perf_counter() - start) / rounds

    once = read(1)
    rounds = max(1, min(10_000, int(_MEASURED / max(once, 1e-9))))
    return min(read(rounds) for _ in range(_READINGS))


def _alone(program: Program, calls: Sequence[Call], used: Sequence[int], nbytes: Sequence[int]) -> Program:
    """A program that only repeats the calls, on buffers of plain bytes that its caller gives."""
    places = {slot: place for place, slot in enumerate(used)}
    buffers = tuple(BufferSlot(f"buffer{slot}", Role.INPUT, u8, (nbytes[slot],)) for slot in used)
    moved = tuple(replace(call, buffers=tuple(places[slot] for slot in call.buffers)) for call in calls)
    functions = {call.function for call in calls}
    objects = tuple(code for code in program.objects if functions & set(code.functions))
    repeat = Repeat(as_expr(_ROUNDS), (), (), moved)
    return Program(buffers, (*program.dims, _ROUNDS), (repeat,), as_expr(0), objects=objects)


def _random(slot: BufferSlot, nbytes: int, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """Small numbers of the buffer's type: no infinities, and indices that most tables have."""
    count = nbytes // slot.dtype.itemsize
    if slot.dtype.is_float:
        values = generator.standard_normal(count, np.float32).astype(slot.dtype.numpy)
    else:
        values = generator.integers(0, 2, count).astype(slot.dtype.numpy)
    return np.frombuffer(bytearray(values.tobytes().ljust(nbytes, b"\0")), np.uint8)
