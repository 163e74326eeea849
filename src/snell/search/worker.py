"""The worker's end of the search: one process that compiles, checks and times candidates.

Reads requests as JSON lines and answers each with one line; whatever generated code does to this process, the user's
goes on.  `python -m snell.search.worker THREADS`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from snell.codegen.host import host_target
from snell.runtime.pool import process_pool
from snell.search.candidate import Candidate
from snell.search.trial import Trials, WrongKernelError, subject_from_data

__all__ = ["main"]


def main(threads: int) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else prints must not look like an answer
    trials = Trials(host_target(), process_pool(threads))
    for line in sys.stdin:
        answers.write(json.dumps(_answer(trials, json.loads(line))) + "\n")


def _answer(trials: Trials, request: dict[str, Any]) -> dict[str, Any]:
    try:
        if request["do"] == "begin":
            return {"seconds": trials.begin(subject_from_data(request["subject"]))}
        outcome = trials.attempt(Candidate.from_data(request["candidate"]))
    except WrongKernelError as error:
        return {"wrong": str(error)}
    except Exception as error:  # whatever goes wrong with a candidate is an answer, and the next one may be right
        return {"error": f"{type(error).__name__}: {error}"}
    return {"ratio": outcome.ratio, "seconds": outcome.seconds, "rejected": outcome.rejected}


if __name__ == "__main__":
    main(int(sys.argv[1]))
