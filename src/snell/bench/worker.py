"""A worker process: ``python -m snell.bench.worker IMPLEMENTATION THREADS`` runs one implementation on request.

It answers requests, one line of JSON each, on its standard input and output:

    {"do": "prepare", "case": NAME, "output": PATH or null}  ->  {"ok": true, "output": true or false}
    {"do": "measure", "inner": N}                            ->  {"readings": [seconds or bytes of one call, …]}
    {"do": "peak"}                                           ->  {"peak": bytes resident at most since prepare, or null}

or ``{"unsupported": why}`` or ``{"error": why}``. ``output`` is a ``.npy`` file for the result of one call. What the
implementation itself writes to its standard output goes to standard error. The worker ends when its input does.
"""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

from snell.bench.cases import Case, parse_case
from snell.bench.implementations import IMPLEMENTATIONS
from snell.bench.peak import forget_peak, peak_bytes
from snell.bench.peers.peer import Program, Timed
from snell.errors import UnsupportedError

__all__ = ["main"]

Prepare = Callable[[Case, int], Program]


class _Worker:
    """The program that is prepared at the moment."""

    def __init__(self, prepare: Prepare, threads: int) -> None:
        self._prepare = prepare
        self._threads = threads
        self._program: Program | None = None
        self._is_own_peak = False

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            match request:
                case {"do": "prepare", "case": str(name), "output": path}:
                    return self._prepared(name, path)
                case {"do": "measure", "inner": int(inner)} if self._program is not None:
                    return {"readings": self._program.measure(inner)}
                case {"do": "peak"}:
                    return {"peak": peak_bytes() if self._is_own_peak else None}
                case _:
                    return {"error": f"expected a prepare or, after it, a measure request, received {request}"}
        except UnsupportedError as error:
            return {"unsupported": str(error)}
        # Whatever a foreign library raises is an answer to the runner, which lists it beside the figures.
        except Exception as error:
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"}

    def _prepared(self, name: str, path: str | None) -> dict[str, Any]:
        # The previous case's memory is given back before the next one's is taken.
        self._program = None
        self._is_own_peak = forget_peak()
        program = self._program = self._prepare(parse_case(name), self._threads)
        match program:
            case Timed(output=output) if output is not None and path is not None:
                np.save(path, output(program.call()))
                return {"ok": True, "output": True}
            case _:
                return {"ok": True, "output": False}


def main(implementation: str, threads: int) -> None:
    """Answer requests until the input ends."""
    answers = _private_output()
    _use_cores(threads)
    try:
        module = importlib.import_module(IMPLEMENTATIONS[implementation].module)
    # An installed peer that does not load (a missing symbol, another version) is an answer, not a crash.
    except Exception as error:
        traceback.print_exc()
        _serve_failure(answers, f"{implementation} does not load: {type(error).__name__}: {error}")
        return
    worker = _Worker(module.prepare, threads)
    for line in sys.stdin:
        _write(answers, worker.answer(json.loads(line)))


def _private_output() -> TextIO:
    """The original standard output, for answers only; descriptor 1 becomes standard error."""
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return private


def _use_cores(threads: int) -> None:
    # Some thread pools take their size from the affinity mask alone.
    if sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def _serve_failure(answers: TextIO, reason: str) -> None:
    for _ in sys.stdin:
        _write(answers, {"error": reason})


def _write(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
