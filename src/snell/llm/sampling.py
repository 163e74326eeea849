"""Choosing the next token from the logits of the last position.

``Sampler(params).sample(logits)`` takes f32 (vocab,) and returns an id. The order is: penalties, logit bias, the mask of
a grammar, temperature, the ``top_k`` largest, the smallest set of probability ``top_p``, tokens of at least ``min_p``
times the largest probability, the set of probability ``typical_p`` whose surprise is nearest to the expected one; the
draw is one Philox number a token, so that a seed repeats a text on every machine.
Sources: top-p, https://arxiv.org/abs/1904.09751; min-p, https://arxiv.org/abs/2407.01082; typical,
https://arxiv.org/abs/2202.00666.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from snell.errors import ConfigError, OutOfRangeError, ShapeError
from snell.llm.penalties import Penalties, UsedTokens

__all__ = ["Sampler", "SamplingParams", "is_whole", "log_probabilities"]

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """``temperature`` 0 takes the most likely token; ``top_k`` 0, the masses 1 and ``min_p`` 0 filter nothing.

    The penalties are explained in ``penalties``.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    logit_bias: Mapping[int, float] | None = None

    def __post_init__(self) -> None:
        for name, (expected, holds) in _EXPECTED.items():
            value = getattr(self, name)
            if not holds(value):
                raise ConfigError(f"{name}: expected {expected}, received {value!r}")

    @property
    def penalties(self) -> Penalties:
        """The three penalties."""
        return Penalties(self.repetition_penalty, self.frequency_penalty, self.presence_penalty)


def is_whole(value: object) -> bool:
    """Whether the value is a whole number; a truth value is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return is_whole(value) or (isinstance(value, float | np.floating) and not math.isnan(value))


def _is_bias(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        is_whole(token_id) and token_id >= 0 and _is_number(bias) and bias < math.inf
        for token_id, bias in cast("Mapping[Any, Any]", value).items()
    )


_EXPECTED: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "temperature": ("a number of at least 0", lambda v: _is_number(v) and 0 <= v < math.inf),
    "top_k": ("a whole number of at least 0 (0: no limit)", lambda v: is_whole(v) and v >= 0),
    "top_p": ("a number above 0 and at most 1", lambda v: _is_number(v) and 0 < v <= 1),
    "min_p": ("a number from 0 to 1", lambda v: _is_number(v) and 0 <= v <= 1),
    "typical_p": ("a number above 0 and at most 1", lambda v: _is_number(v) and 0 < v <= 1),
    "repetition_penalty": ("a number above 0", lambda v: _is_number(v) and 0 < v < math.inf),
    "frequency_penalty": ("a finite number", lambda v: _is_number(v) and math.isfinite(v)),
    "presence_penalty": ("a finite number", lambda v: _is_number(v) and math.isfinite(v)),
    "seed": ("a whole number of at least 0, or None", lambda v: v is None or (is_whole(v) and v >= 0)),
    "logit_bias": ("token ids and their finite numbers, or None", lambda v: v is None or _is_bias(v)),
}


class Sampler:
    """Draws the tokens of one text that follows ``prompt``.

    The state is the position in the stream of random numbers, and the tokens drawn.
    """

    def __init__(self, params: SamplingParams, prompt: Sequence[int] = ()) -> None:
        self.params = params
        self._penalties = params.penalties
        self._used = None if self._penalties.neutral else UsedTokens(prompt)

    @cached_property
    def _random(self) -> np.random.Generator:
        """Made for the first draw: the greedy choice needs none, and NumPy takes 6 ms to import it."""
        return np.random.Generator(np.random.Philox(self.params.seed))

    def sample(self, logits: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_] | None = None) -> int:
        """The next token's id, one of those ``allowed`` (vocab,), if given.

        A logit of −inf forbids a token; NaN or +inf is a ``ConfigError``.
        """
        scores = self._scores(logits, allowed)
        token = int(np.argmax(scores)) if self.params.temperature == 0 else self._drawn(scores)
        if self._used is not None:
            self._used.add(token)
        return token

    def distribution(self, logits: npt.NDArray[np.float32]) -> Vector:
        """f64 (vocab,): the probability with which ``sample`` would take each token next."""
        scores = self._scores(logits, None)
        probabilities = np.zeros(scores.size)
        if self.params.temperature == 0:
            probabilities[np.argmax(scores)] = 1.0
        else:
            ids, weights = self._weighted(scores)
            probabilities[ids] = weights / weights.sum()
        return probabilities

    def _scores(self, logits: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_] | None) -> Vector:
        scores = _checked(logits)
        if self._used is not None:
            self._used.penalise(scores, self._penalties)
        scores = _biased(scores, self.params.logit_bias or {})
        return scores if allowed is None else _masked(scores, allowed)

    def _weighted(self, scores: Vector) -> tuple[npt.NDArray[np.intp], Vector]:
        """Ids of the tokens that no filter takes away, and weights in proportion to their probabilities."""
        params = self.params
        ids = _largest(scores, params.top_k)
        probabilities = _softmax(_tempered(scores[ids], params.temperature))
        kept = _nucleus(probabilities, params.top_p)
        kept = kept[probabilities[kept] >= params.min_p * probabilities.max()]
        kept = kept[_typical(probabilities[kept], params.typical_p)]
        return ids[kept], probabilities[kept]

    def _drawn(self, scores: Vector) -> int:
        ids, weights = self._weighted(scores)
        cumulative = np.cumsum(weights)
        place = int(np.searchsorted(cumulative, self._random.random() * float(cumulative[-1]), side="right"))
        return int(ids[min(place, ids.size - 1)])


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


def _masked(scores: Vector, allowed: npt.NDArray[np.bool_]) -> Vector:
    masked = np.where(allowed, scores, -np.inf)
    if masked.max() == -math.inf:
        raise ConfigError(
            "the grammar and logit_bias, or a logit of −inf, together forbid every token; loosen one of them"
        )
    return masked


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


def _typical(weights: Vector, mass: float) -> npt.NDArray[np.intp]:
    """Places of the tokens nearest to the expected surprise that sum up to ``mass`` (equals together)."""
    if mass >= 1:
        return np.arange(weights.size)
    probabilities = weights / weights.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(probabilities)
        distance = np.abs(surprise - np.nansum(probabilities * surprise))
    order = np.argsort(distance, kind="stable")
    count = int(np.searchsorted(np.cumsum(probabilities[order]), mass, side="left"))
    return np.flatnonzero(distance <= distance[order[min(count, order.size - 1)]])
