"""Choosing the next token."""

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from snell.errors import ConfigError, OutOfRangeError, ShapeError
from snell.llm.sampling import Sampler, SamplingParams, log_probabilities

LOGITS = np.log(np.array([0.5, 0.25, 0.125, 0.0625, 0.0625], np.float32))


def drawn(logits: np.ndarray = LOGITS, count: int = 4000, **params: object) -> np.ndarray:
    """Frequencies of the tokens among many draws."""
    sampler = Sampler(SamplingParams(seed=0, **params))  # type: ignore[arg-type]
    ids = [sampler.sample(logits) for _ in range(count)]
    return np.bincount(ids, minlength=logits.size) / count


def test_without_filters_tokens_are_drawn_with_their_probability() -> None:
    np.testing.assert_allclose(drawn(), np.exp(LOGITS), atol=0.03)


def test_temperature_zero_takes_the_most_likely_token_and_the_first_of_equals() -> None:
    assert Sampler(SamplingParams(temperature=0)).sample(np.array([1, 3, 3], np.float32)) == 1


def test_temperature_two_flattens_the_distribution() -> None:
    flat = np.exp(LOGITS / 2) / np.exp(LOGITS / 2).sum()
    np.testing.assert_allclose(drawn(temperature=2.0), flat, atol=0.03)


def test_a_tiny_temperature_is_greedy() -> None:
    assert drawn(count=50, temperature=1e-300).tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"top_k": 2}, [0, 1]),
        ({"top_k": 4}, [0, 1, 2, 3]),
        ({"top_p": 0.5}, [0]),
        ({"top_p": 0.6}, [0, 1]),
        ({"min_p": 0.2}, [0, 1, 2]),
        ({"top_k": 3, "top_p": 0.8, "min_p": 0.4}, [0, 1]),
        ({"logit_bias": {0: -np.inf, 4: -np.inf}}, [1, 2, 3]),
        ({"logit_bias": {3: 100.0}}, [3]),
    ],
)
def test_a_filter_leaves_exactly_these_tokens(params: dict[str, object], kept: list[int]) -> None:
    assert np.flatnonzero(drawn(**params)).tolist() == kept


@given(hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(-8, 8, width=32)), st.integers(0, 2**40))
def test_a_seed_repeats_its_tokens(logits: np.ndarray, seed: int) -> None:
    one, two = (Sampler(SamplingParams(top_p=0.9, seed=seed)) for _ in range(2))
    assert [one.sample(logits) for _ in range(5)] == [two.sample(logits) for _ in range(5)]


@given(
    hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(-8, 8, width=32)),
    st.floats(0.05, 1),
    st.integers(0, 2**20),
)
def test_the_token_drawn_is_in_the_nucleus(logits: np.ndarray, top_p: float, seed: int) -> None:
    token = Sampler(SamplingParams(top_p=top_p, seed=seed)).sample(logits)
    probabilities = np.exp(log_probabilities(logits))
    above = probabilities[probabilities > probabilities[token]].sum()
    assert above < top_p + 1e-9


def test_log_probabilities_are_natural_and_of_the_unmodified_distribution() -> None:
    logits = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * 10
    judge = torch.log_softmax(torch.from_numpy(logits).double(), 0).numpy()
    np.testing.assert_allclose(log_probabilities(logits), judge, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_logit_that_is_no_number_is_an_error(bad: float, temperature: float) -> None:
    with pytest.raises(ConfigError, match="overflowed"):
        Sampler(SamplingParams(temperature=temperature)).sample(np.array([1, bad], np.float32))


def test_logits_that_forbid_every_token_are_an_error() -> None:
    with pytest.raises(ConfigError, match="all of them"):
        Sampler(SamplingParams()).sample(np.full(3, -np.inf, np.float32))
    with pytest.raises(ConfigError, match="every token"):
        Sampler(SamplingParams(logit_bias={0: -np.inf})).sample(np.ones(1, np.float32))


def test_the_logits_of_the_caller_stay_as_they_are() -> None:
    logits = np.ones(3, np.float32)
    Sampler(SamplingParams(logit_bias={0: 5.0})).sample(logits)
    assert logits.tolist() == [1, 1, 1]


def test_more_than_one_position_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3\)"):
        Sampler(SamplingParams()).sample(np.ones((2, 3), np.float32))


def test_a_bias_for_a_token_outside_of_the_vocabulary_is_an_error() -> None:
    with pytest.raises(OutOfRangeError, match="token 7"):
        Sampler(SamplingParams(logit_bias={7: 1.0})).sample(np.ones(3, np.float32))


@pytest.mark.parametrize(
    "params",
    [{"temperature": -1}, {"temperature": np.nan}, {"temperature": np.inf}, {"top_k": -1}, {"top_p": 0}, {"top_p": 1.1},
     {"min_p": -0.1}, {"min_p": 2}, {"typical_p": 0}, {"repetition_penalty": 0}, {"frequency_penalty": np.inf},
     {"presence_penalty": np.nan}, {"seed": -1}, {"logit_bias": {-1: 0.0}}, {"logit_bias": {0: np.nan}}],
)  # fmt: skip
def test_a_parameter_that_means_nothing_is_named(params: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(params))):
        SamplingParams(**params)  # type: ignore[arg-type]


def judged(logits: np.ndarray, prompt: list[int], params: dict[str, float]) -> np.ndarray:
    """The distribution after transformers' processors, in transformers' order."""
    made = {
        "repetition_penalty": lambda v: transformers.RepetitionPenaltyLogitsProcessor(v),
        "temperature": lambda v: transformers.TemperatureLogitsWarper(v),
        "top_k": lambda v: transformers.TopKLogitsWarper(v),
        "top_p": lambda v: transformers.TopPLogitsWarper(v),
        "min_p": lambda v: transformers.MinPLogitsWarper(v),
        "typical_p": lambda v: transformers.TypicalLogitsWarper(v),
    }
    scores = torch.from_numpy(logits.astype(np.float64))[None]
    for name, make in made.items():
        if name in params:
            scores = make(params[name])(torch.tensor([prompt]), scores)
    return torch.softmax(scores, 1)[0].numpy()


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0.7}, {"temperature": 1.7, "top_k": 12}, {"top_p": 0.8}, {"min_p": 0.05}, {"typical_p": 0.3},
        {"typical_p": 0.9}, {"repetition_penalty": 1.3}, {"repetition_penalty": 0.8, "top_k": 5},
        {"repetition_penalty": 1.2, "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.02, "typical_p": 0.8},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("seed", range(5))
def test_the_distribution_is_the_one_of_transformers(params: dict[str, float], seed: int) -> None:
    logits = (np.random.default_rng(seed).standard_normal(200) * 3).astype(np.float32)
    prompt = [3, 7, 7, int(np.argmax(logits)), int(np.argmin(logits))]
    found = Sampler(SamplingParams(**params), prompt).distribution(logits)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, judged(logits, prompt, params), rtol=1e-9, atol=1e-12)


def test_repetition_counts_the_tokens_written_as_well() -> None:
    sampler = Sampler(SamplingParams(temperature=0, repetition_penalty=2.0), [2])
    logits = np.array([3.0, 2.0, 2.5, 1.0, -1.0], np.float32)
    assert [sampler.sample(logits) for _ in range(4)] == [0, 1, 0, 0]


def test_frequency_counts_each_time_and_presence_once_and_neither_the_prompt() -> None:
    logits = np.array([1.0, 0.0, 0.0], np.float32)
    sampler = Sampler(SamplingParams(temperature=0, frequency_penalty=0.25, presence_penalty=0.125), [0, 0, 0, 0])
    # 1 − 0.25·n − 0.125 stays the largest until n = 4.
    assert [sampler.sample(logits) for _ in range(5)] == [0, 0, 0, 0, 1]
    sampler = Sampler(SamplingParams(frequency_penalty=0.25, presence_penalty=0.125), [1])
    token = sampler.sample(logits)
    expected = logits.astype(np.float64)
    expected[token] -= 0.375
    np.testing.assert_allclose(sampler.distribution(logits), np.exp(expected) / np.exp(expected).sum())


def test_the_defaults_change_nothing() -> None:
    logits = (np.random.default_rng(0).standard_normal(100) * 4).astype(np.float32)
    sampler = Sampler(SamplingParams(seed=1), list(range(50)))
    for _ in range(3):
        np.testing.assert_allclose(sampler.distribution(logits), np.exp(log_probabilities(logits)), rtol=1e-12)
        sampler.sample(logits)


def test_a_token_of_the_prompt_that_has_no_logit_is_passed_over() -> None:
    assert Sampler(SamplingParams(temperature=0, repetition_penalty=2.0), [1, 9]).sample(LOGITS) == 0


def test_only_allowed_tokens_are_drawn_whatever_their_probability() -> None:
    allowed = np.array([False, False, False, True, True])
    sampler = Sampler(SamplingParams(top_k=1, seed=0))
    assert {sampler.sample(LOGITS, allowed) for _ in range(20)} <= {3, 4}
    with pytest.raises(ConfigError, match="forbid every token"):
        Sampler(SamplingParams(logit_bias={3: -np.inf, 4: -np.inf})).sample(LOGITS, allowed)
