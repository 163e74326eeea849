"""How far distributions are apart: the definitions, in float64, on small vocabularies; and figures with standard errors."""

import numpy as np
import pytest

from snell.bench.cases import QualityFigure
from snell.bench.divergence import divergence, joined, statistic

RANDOM = np.random.default_rng(0)
REFERENCE = 3 * RANDOM.standard_normal((40, 50), np.float32)
LOGITS = REFERENCE + RANDOM.standard_normal((40, 50), np.float32) / 8
FOLLOWING = RANDOM.integers(0, 50, 40)


def probabilities(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits.astype(np.float64))
    return exponentials / exponentials.sum(1, keepdims=True)


def test_the_divergence_is_what_the_definition_says() -> None:
    p, q = probabilities(REFERENCE), probabilities(LOGITS)
    found = divergence(REFERENCE, LOGITS, FOLLOWING)
    np.testing.assert_allclose(found.divergences, (p * np.log(p / q)).sum(1), atol=1e-5)
    np.testing.assert_allclose(found.losses, -np.log(q[np.arange(40), FOLLOWING]), atol=1e-5)
    np.testing.assert_allclose(found.reference_losses, -np.log(p[np.arange(40), FOLLOWING]), atol=1e-5)
    assert found.agrees.tolist() == (p.argmax(1) == q.argmax(1)).tolist()


def test_equal_logits_do_not_diverge_whatever_constant_is_added() -> None:
    found = divergence(REFERENCE, REFERENCE + np.float32(64), FOLLOWING)
    assert np.abs(found.divergences).max() < 1e-5
    assert found.agrees.all()


def test_parts_are_joined_in_order() -> None:
    whole = divergence(REFERENCE, LOGITS, FOLLOWING)
    parts = [divergence(REFERENCE[at], LOGITS[at], FOLLOWING[at]) for at in (slice(0, 7), slice(7, 40))]
    np.testing.assert_array_equal(joined(parts).losses, whole.losses)


def test_a_mean_has_the_standard_error_of_a_mean() -> None:
    value, error = statistic(QualityFigure.MEAN_DIVERGENCE, [1.0, 2.0, 3.0, 4.0])
    assert value == 2.5
    assert error == pytest.approx(np.sqrt(5 / 3) / 2)


def test_agreement_is_in_percent_with_the_error_of_a_share() -> None:
    value, error = statistic(QualityFigure.AGREEMENT, [1.0] * 900 + [0.0] * 100)
    assert value == pytest.approx(90)
    assert error == pytest.approx(100 * np.sqrt(0.9 * 0.1 / 1000), rel=1e-3)


def test_perplexity_is_the_exponential_of_the_mean_loss() -> None:
    losses = RANDOM.uniform(2, 4, 1000)
    value, error = statistic(QualityFigure.PERPLEXITY, losses.tolist())
    assert value == pytest.approx(np.exp(losses.mean()))
    assert error == pytest.approx(value * losses.std() / np.sqrt(1000), rel=1e-2)


def test_the_99th_percentile_s_error_is_how_far_it_scatters_from_sample_to_sample() -> None:
    samples = RANDOM.exponential(size=(300, 2000))
    found = [statistic(QualityFigure.HIGH_DIVERGENCE, sample.tolist()) for sample in samples]
    values, errors = np.array(found).T
    assert values.mean() == pytest.approx(np.log(100), rel=0.02)
    assert np.median(errors) == pytest.approx(values.std(), rel=0.25)


def test_readings_of_each_figure_are_a_number_a_prediction() -> None:
    found = divergence(REFERENCE, LOGITS, FOLLOWING)
    assert {len(found.readings(figure)) for figure in QualityFigure} == {40}
    assert found.readings(QualityFigure.PERPLEXITY_RATIO) == (found.losses - found.reference_losses).tolist()
