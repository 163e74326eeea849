"""The worker: wrong, ill-formed, crashing and hanging candidates are rejected, and the search goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.search.tasks import THREADS, planned, spec, tasks

from snell.loops.plan import HEURISTICS, Plan, StageChoice
from snell.search import worker_process
from snell.search.trial import Subject
from snell.search.worker_process import Worker, WorkerError

TASK = tasks(lambda a, b: a @ b + 1, spec(40, 50), spec(50, 70))[0]
FIRST = planned(TASK, HEURISTICS)
SUBJECT = Subject(FIRST, ({},), (), 50.0)


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker(THREADS) as made:
        made.begin(SUBJECT)
        yield made


def test_a_right_candidate_is_timed(worker: Worker) -> None:
    outcome = worker.attempt(planned(TASK, Plan((StageChoice(columns=64),))))
    assert outcome.rejected is None
    assert 0.05 < outcome.ratio < 20


def test_a_wrong_candidate_is_rejected_with_the_first_difference(worker: Worker) -> None:
    outcome = worker.attempt(replace(FIRST, kernel=FIRST.kernel.replace("Mul(", "Add(")))
    assert outcome.rejected is not None
    assert "values differ, first at" in outcome.rejected


def test_an_ill_formed_candidate_is_rejected(worker: Worker) -> None:
    outcome = worker.attempt(replace(FIRST, kernel=FIRST.kernel.replace("phase", "phrase")))
    assert outcome.rejected is not None
    assert "VerificationError" in outcome.rejected
    assert worker.attempt(FIRST).rejected is None


def test_a_worker_that_died_is_replaced(worker: Worker) -> None:
    assert worker.process_id is not None
    os.kill(worker.process_id, signal.SIGKILL)
    assert worker.attempt(FIRST).rejected == "the process ended: SIGKILL"
    assert worker.attempt(FIRST).rejected is None


def test_a_candidate_that_hangs_is_rejected(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker.process_id is not None
    os.kill(worker.process_id, signal.SIGSTOP)
    monkeypatch.setattr(worker_process, "ATTEMPT_SECONDS", 0.3)
    assert worker.attempt(FIRST).rejected == "no answer within 0.3 s"
    monkeypatch.undo()
    assert worker.attempt(FIRST).rejected is None


def test_a_subject_that_the_worker_cannot_hold_is_an_error() -> None:
    (task,) = tasks(lambda a: a + 1, spec(20_000, 20_000))
    with Worker(THREADS) as worker, pytest.raises(WorkerError, match="MiB are more than a trial may hold"):
        worker.begin(Subject(planned(task, HEURISTICS), ({},), (), 1.0))
