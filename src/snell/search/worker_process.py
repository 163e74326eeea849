"""The user's end of the worker: start it, ask it, end it when it hangs, start it again after it died."""

from __future__ import annotations

import contextlib
import json
import math
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

from snell.errors import SnellError
from snell.search.candidate import Candidate
from snell.search.trial import Outcome, Subject, WrongKernelError, subject_to_data

__all__ = ["Worker", "WorkerError"]

BEGIN_SECONDS, ATTEMPT_SECONDS = 60.0, 20.0


class WorkerError(SnellError):
    """The worker could not take on a subject: it died, hung, or ran out of memory."""


class Worker:
    """One process at a time; a candidate that ends it is rejected, and the next one gets a new process."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._subject: Subject | None = None
        self._known: Subject | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process_id(self) -> int | None:
        """The process at work, None where there is none."""
        return None if self._process is None else self._process.pid

    def begin(self, subject: Subject) -> float:
        """Seconds of the subject's first kernel; `attempt` then is about this subject.  WrongKernelError where that kernel
        is wrong."""
        self._subject = subject
        return self._begin()

    def attempt(self, candidate: Candidate) -> Outcome:
        """Check and time a candidate; a crash or a hang is a rejection."""
        if self._known is not self._subject or self._process is None:
            self._begin()
        try:
            answer = self._ask({"do": "attempt", "candidate": candidate.to_data()}, ATTEMPT_SECONDS)
        except WorkerError as error:
            return Outcome(math.inf, math.inf, str(error))
        return Outcome(answer["ratio"], answer["seconds"], answer["rejected"])

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _begin(self) -> float:
        assert self._subject is not None
        answer = self._ask({"do": "begin", "subject": subject_to_data(self._subject)}, BEGIN_SECONDS)
        self._known = self._subject
        return float(answer["seconds"])

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise WorkerError(f"no answer within {seconds:g} s") from None
        except OSError:
            line = ""
        if not line:
            status = process.wait()
            self.close()
            raise WorkerError(f"the process ended: {_cause(status)}")
        answer = json.loads(line)
        if "wrong" in answer:
            raise WrongKernelError(answer["wrong"])
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "snell.search.worker", str(self._threads)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what a crash says is not for the user's terminal
            text=True,
            start_new_session=True,
        )
        self._process, self._lines, self._known = process, queue.SimpleQueue(), None
        threading.Thread(target=_read, args=(process, self._lines), daemon=True).start()
        return process


def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError, OSError):
        for line in process.stdout:
            lines.put(line)
    lines.put("")


def _cause(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"
