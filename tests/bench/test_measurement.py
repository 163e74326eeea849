"""A figure is a median with its spread; a missing figure is written down too."""

import json

import pytest

from snell.bench import MachineLimits, Measured, Missing, Origin, json_line
from snell.bench.cases import Fused, FusedLine, Matmul, Quality, QualityFigure
from snell.bench.environment import worker_environment
from snell.bench.limits import limit
from snell.bench.measurement import summarise, summarise_quality
from snell.runtime.limits import machine_limits

ORIGIN = Origin("2026-01-02T03:04:05+00:00", "a machine", "1.2.3")
CASE = Matmul(100, 100, 100, "f32")


def test_the_median_is_reported_in_the_case_s_unit() -> None:
    figure = summarise(CASE, "numpy", [1e-3, 2e-3, 100.0], threads=2, limit=None)
    assert figure.value == pytest.approx(1.0)
    assert figure.n == 3


def test_the_spread_is_the_interquartile_range_over_the_median() -> None:
    case = Fused(FusedLine.ADD, (8,))
    figure = summarise(case, "numpy", [1.0, 2.0, 3.0, 4.0, 5.0], threads=1, limit=None)
    assert figure.spread == pytest.approx(2 / 3)


def test_a_single_reading_has_no_spread() -> None:
    assert summarise(CASE, "numpy", [1.0], threads=1, limit=None).spread == 0.0


def test_a_figure_is_one_line_of_json() -> None:
    line = json_line(Measured(CASE, "snell", 12.5, 0.01, 9, 2, None), ORIGIN)
    assert "\n" not in line
    fields = json.loads(line)
    assert fields["bench"] == "matmul/100x100x100/f32"
    assert (fields["impl"], fields["value"], fields["unit"]) == ("snell", 12.5, "GFLOP/s")
    assert (fields["threads"], fields["n"]) == (2, 9)
    assert (fields["date"], fields["machine"], fields["version"]) == (ORIGIN.date, ORIGIN.machine, ORIGIN.version)


def test_a_missing_figure_has_a_reason_and_no_value() -> None:
    fields = json.loads(json_line(Missing(CASE, "jax", "it crashed", failed=True), ORIGIN))
    assert fields["value"] is None
    assert fields["reason"] == "it crashed"


def test_the_limit_is_the_slower_of_arithmetic_and_memory() -> None:
    limits = MachineLimits(2, read_bytes_per_second=1e9, f32_flops_per_second=1e9)
    big = Fused(FusedLine.SUM, (1024, 1024, 64))
    assert limit(CASE, limits) == pytest.approx(1.0)
    assert limit(big, limits) == pytest.approx(big.bytes / 1e9 * 1e6)


def test_no_limit_is_claimed_where_none_is_known() -> None:
    assert limit(CASE, MachineLimits(2, None, None)) is None
    assert limit(Fused(FusedLine.ADD, (8, 8)), MachineLimits(2, 1e9, None)) is None


def test_the_read_bandwidth_of_this_machine_is_measured() -> None:
    assert (machine_limits(1, array_bytes=2**22).read_bytes_per_second or 0) > 1e8


def test_workers_get_equal_threads_and_a_fair_blas() -> None:
    environment = worker_environment({"OPENBLAS_CORETYPE": "Haswell", "PATH": "/bin", "OMP_NUM_THREADS": "64"}, 2)
    assert "OPENBLAS_CORETYPE" not in environment
    assert environment["PATH"] == "/bin"
    assert environment["OMP_NUM_THREADS"] == environment["OPENBLAS_NUM_THREADS"] == "2"


def test_a_figure_of_many_predictions_has_a_standard_error_in_place_of_a_spread() -> None:
    case = Quality("smollm2", QualityFigure.AGREEMENT)
    figure = summarise_quality(case, "snell", [1.0] * 90 + [0.0] * 10, threads=2)
    assert (figure.value, figure.n, figure.spread) == (90.0, 100, 0.0)
    assert figure.standard_error == pytest.approx(3.0, rel=0.01)
    fields = json.loads(json_line(figure, ORIGIN))
    assert (fields["unit"], fields["standard_error"]) == ("%", figure.standard_error)
