"""The runner's end of a worker process: start it, ask it, give it up when it is too slow or has died."""

import contextlib
import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snell.errors import SnellError, UnsupportedError

__all__ = ["WorkerError", "WorkerProcess"]

PREPARE_SECONDS, MEASURE_SECONDS = 300.0, 300.0


class WorkerError(SnellError):
    """A worker failed, died or did not answer in time."""


class WorkerProcess:
    """One implementation in its own process; started at the first request and again after a failure."""

    def __init__(self, implementation: str, threads: int, environment: Mapping[str, str]) -> None:
        self.implementation = implementation
        self.threads = threads
        self._environment = dict(environment)
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as this object)

    def prepare(self, case: str, output: Path | None) -> bool:
        """Prepare a case; whether a result was written to ``output``."""
        request = {"do": "prepare", "case": case, "output": str(output) if output else None}
        return bool(self._ask(request, PREPARE_SECONDS)["output"])

    def measure(self, inner: int, seconds: float = MEASURE_SECONDS) -> list[float]:
        """Readings of one call each from the prepared program, which has so many seconds to give them."""
        return self._ask({"do": "measure", "inner": inner}, seconds)["readings"]

    def peak(self) -> int | None:
        """Bytes that the process had resident at most since it prepared the case; None where that is not known."""
        return self._ask({"do": "peak"}, MEASURE_SECONDS)["peak"]

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self._kill()
            raise WorkerError(f"no answer within {seconds:.0f} s") from None
        except OSError:
            line = ""
        if not line:
            raise WorkerError(f"the process died: {self._last_words()}")
        answer = json.loads(line)
        if "unsupported" in answer:
            raise UnsupportedError(answer["unsupported"])
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _start(self) -> subprocess.Popen[str]:
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", "snell.bench.worker", self.implementation, str(self.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=self._environment,
        )
        self._lines = queue.SimpleQueue()
        threading.Thread(target=_forward, args=(process, self._lines), daemon=True).start()
        return process

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _last_words(self) -> str:
        code = self._process.wait() if self._process else None
        self._process = None
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f"exit status {code}" + (f", {lines[-1]}" if lines else "")


def _forward(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    """Move lines to the queue, so that waiting for one can time out; an empty line marks the end."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")
