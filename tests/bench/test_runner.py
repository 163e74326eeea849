"""The runner measures in turns, refuses wrong answers, and lists every implementation that has no figure."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from snell.bench import Implementation, MachineLimits, Measured, Missing, Options, choose, parse_case, run
from snell.bench.implementations import IMPLEMENTATIONS, PEERS
from snell.bench.worker_process import WorkerError, WorkerProcess
from snell.config import process_environment
from snell.errors import UnsupportedError

QUICK = Options(threads=1, reading_seconds=0.001, warm_up_seconds=0.01, pause_seconds=0.0)
LIMITS = MachineLimits(1, None, None)


def environment() -> dict[str, str]:
    return process_environment() | {"PYTHONPATH": ":".join(filter(None, sys.path))}


@pytest.fixture
def numpy_worker() -> Iterator[WorkerProcess]:
    worker = WorkerProcess("numpy", 1, environment())
    yield worker
    worker.close()


def test_numpy_is_measured_nine_times_and_its_answer_checked() -> None:
    outcomes = list(run([parse_case("matmul/64x64x64/f32")], [IMPLEMENTATIONS["numpy"]], QUICK, LIMITS, environment()))
    [figure] = outcomes
    assert isinstance(figure, Measured)
    assert figure.n == 9
    assert figure.value > 0


def test_a_case_that_an_implementation_does_not_run_is_listed() -> None:
    cases = [parse_case("matmul/8x8x8/bf16"), parse_case("fused/gelu_erf_4x4")]
    outcomes = list(run(cases, [IMPLEMENTATIONS["numpy"]], QUICK, LIMITS, environment()))
    assert [isinstance(outcome, Missing) and not outcome.failed for outcome in outcomes] == [True, True]


def test_a_wrong_answer_is_a_failure_and_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snell.bench.runner.reference", lambda case, operands: 2 * (operands[0] @ operands[1]))
    [outcome] = run([parse_case("matmul/8x8x8/f32")], [IMPLEMENTATIONS["numpy"]], QUICK, LIMITS, environment())
    assert isinstance(outcome, Missing)
    assert outcome.failed
    assert "wrong result" in outcome.reason


def test_a_worker_that_cannot_start_is_a_failure_with_its_last_words() -> None:
    broken = Implementation("nobody", "snell.bench.peers.nobody", ())
    [outcome] = run([parse_case("matmul/8x8x8/f32")], [broken], QUICK, LIMITS, environment())
    assert isinstance(outcome, Missing)
    assert outcome.failed
    assert "KeyError" in outcome.reason


def test_a_worker_answers_again_after_an_error(numpy_worker: WorkerProcess, tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="expected a prepare"):
        numpy_worker.measure(1)
    assert numpy_worker.prepare("matmul/8x8x8/f32", tmp_path / "output.npy")
    assert len(numpy_worker.measure(3)) == 1


def test_peers_are_chosen_by_name() -> None:
    chosen = choose("numpy, torch")
    names = [each.name for each in (*chosen.installed, *chosen.not_installed)]
    assert names == ["snell", "numpy", "torch"]
    assert [each.name for each in choose("none").installed] == ["snell"]


def test_a_peer_that_is_not_installed_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snell.bench.implementations.find_spec", lambda package: None if package == "jax" else package)
    chosen = choose("all")
    assert [each.name for each in chosen.not_installed] == ["jax"]
    assert len(chosen.installed) == len(PEERS)


def test_an_unknown_peer_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="bogus"):
        choose("numpy,bogus")


def test_a_long_attention_is_for_snell_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snell.bench.runner.reference", lambda case, operands: operands[0])
    [outcome] = run([parse_case("attention/full/8192")], [IMPLEMENTATIONS["numpy"]], QUICK, LIMITS, environment())
    assert isinstance(outcome, Missing)
    assert not outcome.failed


def test_a_constant_operand_is_measured_and_its_answer_checked() -> None:
    outcomes = list(
        run([parse_case("matmul/8x6x4/f32/const")], [IMPLEMENTATIONS["numpy"]], QUICK, LIMITS, environment())
    )
    assert [isinstance(outcome, Measured) for outcome in outcomes] == [True]


def test_a_figure_has_the_peak_memory_of_its_process(numpy_worker: WorkerProcess) -> None:
    numpy_worker.prepare("matmul/8x8x8/f32", None)
    numpy_worker.measure(1)
    assert (numpy_worker.peak() or 1 << 24) >= 1 << 24


def test_quality_is_judged_and_an_implementation_without_language_models_is_listed() -> None:
    outcomes = list(run([parse_case("quality/smollm2/top1")], [IMPLEMENTATIONS["numpy"]], QUICK, LIMITS, environment()))
    assert [isinstance(outcome, Missing) and not outcome.failed for outcome in outcomes] == [True]
