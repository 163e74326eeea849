"""Choosing the next token from the logits of the last position.

``Sampler(params).sample(logits)`` takes f32 (vocab,) and returns an id. The order is: logit bias, temperature, the
``top_k`` largest, the smallest set of probability ``top_p``, tokens of at least ``min_p`` times the largest
probability; the draw is one Philox number a token, so that a seed repeats a text on every machine.
Sources: top-p, https://arxiv.org/abs/1904.09751; min-p, https://arxiv.org/abs/2407.01082.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snell.errors import ConfigError, OutOfRangeError, ShapeError

__all__ = ["Sampler", "SamplingParams", "log_probabilities"]

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """``temperature`` 0 takes the most likely token; ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 filter nothing."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    logit_bias: Mapping[int, float] | None = None

    def __post_init__(self) -> None:
        _require(
            math.isfinite(self.temperature) and self.temperature >= 0, "temperature", "at least 0", self.temperature
        )
        _require(self.top_k >= 0, "top_k", "of at least 0 (0: no limit)", self.top_k)
        _require(0 < self.top_p <= 1, "top_p", "above 0 and at most 1", self.top_p)
        _require(0 <= self.min_p <= 1, "min_p", "from 0 to 1", self.min_p)
        _require(self.seed is None or self.seed >= 0, "seed", "of at least 0, or None", self.seed)
        for token_id, bias in (self.logit_bias or {}).items():
            _require(token_id >= 0 and not math.isnan(bias) and bias < math.inf, "logit_bias", "finite", bias)


def _require(valid: bool, name: str, expected: str, received: object) -> None:
    if not valid:
        raise ConfigError(f"{name}: expected a value {expected}, received {received!r}")


class Sampler:
    """Draws the tokens of one text; the state is the position in the stream of random numbers."""

    def __init__(self, params: SamplingParams) -> None:
        self.params = params
        self._random = np.random.Generator(np.random.Philox(params.seed))

    def sample(self, logits: npt.NDArray[np.float32]) -> int:
        """The next token's id. A logit of −inf forbids a token; NaN or +inf is a ``ConfigError``."""
        scores = _biased(_checked(logits), self.params.logit_bias or {})
        if self.params.temperature == 0:
            return int(np.argmax(scores))
        ids = _largest(scores, self.params.top_k)
        probabilities = _softmax(_tempered(scores[ids], self.params.temperature))
        kept = _nucleus(probabilities, self.params.top_p)
        kept = kept[probabilities[kept] >= self.params.min_p * probabilities.max()]
        cumulative = np.cumsum(probabilities[kept])
        place = int(np.searchsorted(cumulative, self._random.random() * float(cumulative[-1]), side="right"))
        return int(ids[kept[min(place, kept.size - 1)]])


def log_probabilities(logits: npt.NDArray[np.float32]) -> Vector:
    """Natural logarithms of the unmodified distribution, f64 (vocab,)."""
    scores = _checked(logits)
    shifted = scores - scores.max()
    return shifted - math.log(np.exp(shifted).sum())


def _checked(logits: npt.NDArray[np.float32]) -> Vector:
    if logits.ndim != 1 or logits.size == 0:
        raise ShapeError(f"expected the logits of one position, shape (vocab,), received {logits.shape}")
    largest = float(np.max(logits))  # NaN if any is NaN
    if not math.isfinite(largest):
        problem = "all of them are −inf" if largest == -math.inf else f"one of them is {largest}"
        raise ConfigError(f"no token can be drawn from these logits: {problem}; the model's numbers have overflowed")
    return logits.astype(np.float64)


def _biased(scores: Vector, bias: Mapping[int, float]) -> Vector:
    for token_id, value in bias.items():
        if token_id >= scores.size:
            raise OutOfRangeError(f"logit_bias: token {token_id} is outside of the vocabulary of {scores.size} tokens")
        scores[token_id] += value
    if bias and scores.max() == -math.inf:
        raise ConfigError("logit_bias forbids every token; leave at least one")
    return scores


def _tempered(scores: Vector, temperature: float) -> Vector:
    # Shifted first: a tiny temperature must not turn the best score into infinity.
    with np.errstate(over="ignore"):
        return (scores - scores.max()) / temperature


def _softmax(scores: Vector) -> Vector:
    weights = np.exp(scores)
    return weights / weights.sum()


def _largest(scores: Vector, count: int) -> npt.NDArray[np.intp]:
    """Ids of the ``count`` largest scores in ascending order of the id (0: all); the first of equals stay."""
    if count == 0 or count >= scores.size:
        return np.arange(scores.size)
    bound = np.partition(scores, scores.size - count)[scores.size - count]
    above, equal = np.flatnonzero(scores > bound), np.flatnonzero(scores == bound)
    return np.sort(np.concatenate([above, equal[: count - above.size]]))


def _nucleus(probabilities: Vector, mass: float) -> npt.NDArray[np.intp]:
    """Places of the fewest tokens whose probabilities sum up to ``mass``; at least one."""
    if mass >= 1:
        return np.arange(probabilities.size)
    # Tokens below this bound together weigh less than 1 - mass, so none is in the nucleus: few are left to sort.
    places = np.flatnonzero(probabilities >= (1 - mass) / probabilities.size)
    order = places[np.argsort(-probabilities[places], kind="stable")]
    count = int(np.searchsorted(np.cumsum(probabilities[order]), mass, side="left")) + 1
    return order[:count]
