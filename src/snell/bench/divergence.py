"""How far a model's next-token distributions are from another's: a number a prediction, and what they come to.

``Divergence`` collects, for each prediction, the Kullback-Leibler divergence KL(reference || model) = Σ p·ln(p/q), whether
both find the same token likeliest, and what each pays for the token that follows: its negative logarithm of probability.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from snell.bench.arrays import F32, F64
from snell.bench.cases import QualityFigure

__all__ = ["Divergence", "divergence", "joined", "statistic"]

_ROWS = 16  # at a time: a vocabulary of 262,144 tokens makes a row of a megabyte


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Each (predictions,), in nats but for ``agrees``, which is 1 or 0."""

    divergences: F64
    agrees: F64
    losses: F64
    reference_losses: F64

    def readings(self, figure: QualityFigure) -> list[float]:
        """What ``statistic`` takes, a number a prediction."""
        match figure:
            case QualityFigure.MEAN_DIVERGENCE | QualityFigure.HIGH_DIVERGENCE:
                return self.divergences.tolist()
            case QualityFigure.AGREEMENT:
                return self.agrees.tolist()
            case QualityFigure.PERPLEXITY:
                return self.losses.tolist()
            case QualityFigure.PERPLEXITY_RATIO:
                return (self.losses - self.reference_losses).tolist()
            case _:
                assert_never(figure)


def divergence(reference: F32, logits: F32, following: NDArray[np.int64]) -> Divergence:
    """Of logits (n, vocabulary) from the reference's, before the tokens (n,) that follow."""
    parts = [
        _rows(reference[at : at + _ROWS], logits[at : at + _ROWS], following[at : at + _ROWS])
        for at in range(0, len(following), _ROWS)
    ]
    return joined(parts)


def joined(parts: Sequence[Divergence]) -> Divergence:
    """All predictions of the parts."""

    def all_of(read: Callable[[Divergence], F64]) -> F64:
        return np.concatenate([read(part) for part in parts])

    return Divergence(
        all_of(lambda part: part.divergences),
        all_of(lambda part: part.agrees),
        all_of(lambda part: part.losses),
        all_of(lambda part: part.reference_losses),
    )


def _rows(reference: F32, logits: F32, following: NDArray[np.int64]) -> Divergence:
    expected, found = _log_probabilities(reference), _log_probabilities(logits)
    place = np.arange(len(following)), following
    return Divergence(
        np.sum(np.exp(expected) * (expected - found), axis=1, dtype=np.float64),
        (reference.argmax(axis=1) == logits.argmax(axis=1)).astype(np.float64),
        -found[place].astype(np.float64),
        -expected[place].astype(np.float64),
    )


def _log_probabilities(logits: F32) -> F32:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)


def statistic(figure: QualityFigure, readings: Sequence[float]) -> tuple[float, float]:
    """The figure in its unit, and its standard error, of at least two readings, taken to be independent."""
    values = np.asarray(readings, np.float64)
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
    match figure:
        case QualityFigure.MEAN_DIVERGENCE:
            return mean, error
        case QualityFigure.HIGH_DIVERGENCE:
            return _quantile(values, 0.99)
        case QualityFigure.AGREEMENT:
            return 100 * mean, 100 * error
        case QualityFigure.PERPLEXITY | QualityFigure.PERPLEXITY_RATIO:
            value = float(np.exp(mean))
            return value, value * error
        case _:
            assert_never(figure)


def _quantile(values: F64, share: float) -> tuple[float, float]:
    """Its standard error from the values as many ranks away as the number below it scatters (binomial)."""
    ranks = np.sqrt(share * (1 - share) / values.size)
    low, value, high = np.quantile(values, [max(0.0, share - ranks), share, min(1.0, share + ranks)])
    return float(value), float(high - low) / 2
