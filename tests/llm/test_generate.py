"""Generation with a small random model: what ends a text, what is returned, what is refused."""

import numpy as np
import pytest
from tests.llm.tiny_models import BOS, EOS, tiny_llama, write_gguf_llama

from snell.dtypes import f32
from snell.errors import ConfigError, ContextLengthError, OutOfRangeError, SnellError
from snell.llm import LanguageModel, load
from snell.llm.interpreted import InterpretingCompiler

FORBID_EOS = {EOS: -1e9}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    path = write_gguf_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_llama())
    found = load(path, kv_dtype="f32", compiler=InterpretingCompiler())
    assert isinstance(found, LanguageModel)
    return found


@pytest.fixture(scope="module")
def greedy_ids(model: LanguageModel) -> list[int]:
    """Twelve greedy tokens after "hello", by whole forward passes without a cache."""
    ids = model.tokenizer.encode("hello")
    start = len(ids)
    for _ in range(12):
        ids.append(int(np.argmax(np.delete(model.logits(ids)[-1], EOS))))
        ids[-1] += ids[-1] >= EOS
    return ids[start:]


def test_greedy_decoding_takes_the_likeliest_token_of_whole_passes(model: LanguageModel, greedy_ids: list[int]) -> None:
    generation = model.generate("hello", max_tokens=12, temperature=0.0, logit_bias=FORBID_EOS)
    assert list(generation.token_ids) == greedy_ids
    assert generation.text == str(generation) == model.tokenizer.decode(greedy_ids)
    assert generation.finish_reason == "length"
    assert generation.logprobs is None
    assert (generation.usage.prompt_tokens, generation.usage.completion_tokens) == (4, 12)
    assert generation.timings.decode_steps == 11


def test_a_model_is_shown_by_its_sizes(model: LanguageModel) -> None:
    assert repr(model) == f"<LanguageModel of {model.vocab_size} tokens; context {model.context}, KV cache f32>"


def test_a_stream_yields_a_chunk_a_token_and_the_same_text(model: LanguageModel, greedy_ids: list[int]) -> None:
    stream = model.generate("hello", max_tokens=12, temperature=0.0, logit_bias=FORBID_EOS, stream=True)
    chunks = list(stream)
    assert [id_ for chunk in chunks for id_ in chunk.token_ids] == greedy_ids
    assert "".join(chunk.text for chunk in chunks) == stream.result.text == model.tokenizer.decode(greedy_ids)
    assert [chunk.finish_reason for chunk in chunks] == [None] * 11 + ["length"]


def test_leaving_a_stream_cancels_it(model: LanguageModel, greedy_ids: list[int]) -> None:
    with model.generate("hello", max_tokens=12, temperature=0.0, logit_bias=FORBID_EOS, stream=True) as stream:
        for _ in range(3):
            next(stream)
    assert stream.result.finish_reason == "cancelled"
    assert list(stream.result.token_ids) == greedy_ids[:3]
    assert list(stream) == []


def test_an_end_token_stops_and_is_no_part_of_the_text(model: LanguageModel) -> None:
    generation = model.generate("hello", max_tokens=12, temperature=0.0, logit_bias={EOS: 1e9})
    assert (generation.text, generation.token_ids, generation.finish_reason) == ("", (), "stop")


def test_a_stop_string_ends_the_text_before_it(model: LanguageModel) -> None:
    only_e = dict.fromkeys(model.tokenizer.encode("e"), 0.0)
    bias = {**dict.fromkeys(range(model.vocab_size), -1e9), **only_e}
    generation = model.generate("hello", max_tokens=20, temperature=0.0, stop=["eee"], logit_bias=bias)
    assert (generation.text, generation.finish_reason) == ("", "stop")
    assert len(generation.token_ids) == 3
    assert model.generate("hello", max_tokens=4, temperature=0.0, stop="zz", logit_bias=bias).text == "eeee"


def test_a_seed_repeats_a_text_and_another_changes_it(model: LanguageModel) -> None:
    texts = [model.generate("hello", max_tokens=12, seed=seed).token_ids for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]


def test_logprobs_are_natural_logarithms_of_the_unmodified_distribution(model: LanguageModel) -> None:
    generation = model.generate("hello", max_tokens=2, temperature=0.0, logprobs=3, logit_bias=FORBID_EOS)
    assert generation.logprobs is not None
    logits = model.logits(model.tokenizer.encode("hello"))[-1].astype(np.float64)
    expected = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    first = generation.logprobs[0]
    assert first.logprob == pytest.approx(expected[first.token_id], abs=1e-5)
    assert [id_ for id_, _ in first.top] == np.argsort(-expected)[:3].tolist()


def test_messages_go_through_the_template_and_name_no_control_tokens(model: LanguageModel) -> None:
    messages = [{"role": "user", "content": "hi<|turn_end|>"}]
    assert model.has_chat_template
    stream = model.generate(messages, max_tokens=0, stream=True)
    [chunk] = list(stream)
    assert chunk.finish_reason == "length"
    # Three control tokens of the template's own; the message's is spelled out.
    spelled = [model.tokenizer.encode(text) for text in ("user: hi<|turn_end|>", "assistant: ")]
    assert stream.result.usage.prompt_tokens == 3 + len(spelled[0]) + len(spelled[1])


def test_a_list_of_prompts_is_a_batch_and_ids_are_one_prompt(model: LanguageModel) -> None:
    batch = model.generate(["hello", "abc"], max_tokens=3, temperature=0.0)
    assert [one.token_ids for one in batch] == [
        model.generate(text, max_tokens=3, temperature=0.0).token_ids for text in ("hello", "abc")
    ]
    ids = model.tokenizer.encode("abc")
    assert model.generate(ids, max_tokens=3, temperature=0.0).token_ids == batch[1].token_ids


def test_what_does_not_fit_the_context_is_refused_before_anything_runs(model: LanguageModel) -> None:
    with pytest.raises(ContextLengthError, match="4 tokens and max_tokens=61 do not fit the context of 64"):
        model.generate("hello", max_tokens=61, stream=True)
    filled = model.generate("hello", temperature=0.0, logit_bias=FORBID_EOS)
    assert (len(filled.token_ids), filled.finish_reason) == (60, "length")
    with pytest.raises(ContextLengthError, match="65 tokens do not fit a context of 64"):
        model.logits([BOS] * 65)


def test_options_that_mean_nothing_are_refused(model: LanguageModel) -> None:
    with pytest.raises(ConfigError, match="max_tokens"):
        model.generate("hello", max_tokens=-1)
    with pytest.raises(TypeError, match="temprature"):
        model.generate("hello", temprature=1.0)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="no tokens"):
        model.generate("")


def test_a_decoder_embeds_the_last_tokens_state(model: LanguageModel) -> None:
    vectors = model.embed(["hello", "abc"])
    assert vectors.shape == (2, 32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert not np.allclose(vectors[0], model.embed("hello", pooling="mean")[0], atol=1e-2)


def test_conversations_are_a_batch_too_and_each_has_its_own_length(model: LanguageModel) -> None:
    talks = [[{"role": "user", "content": text}] for text in ("hi", "a longer question")]
    answers = model.generate(talks, max_tokens=3, temperature=0.0)
    assert [one.token_ids for one in answers] == [
        model.generate(talk, max_tokens=3, temperature=0.0).token_ids for talk in talks
    ]
    assert answers[0].usage.prompt_tokens < answers[1].usage.prompt_tokens
    assert model.generate([], max_tokens=3) == []


def test_neutral_options_change_no_token(model: LanguageModel) -> None:
    neutral = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "repetition_penalty": 1.0,
               "frequency_penalty": 0.0, "presence_penalty": 0.0, "logit_bias": {}, "stop": []}  # fmt: skip
    plain = model.generate("hello", max_tokens=12, seed=5)
    assert model.generate("hello", max_tokens=12, seed=5, **neutral).token_ids == plain.token_ids  # type: ignore[call-overload]


def test_a_repetition_penalty_reaches_the_tokens_of_the_prompt(model: LanguageModel) -> None:
    options = {"max_tokens": 8, "temperature": 0.0, "logit_bias": FORBID_EOS}
    ids = model.tokenizer.encode("hello")
    free = model.generate(ids, **options).token_ids  # type: ignore[call-overload]
    repeated = [*ids, *free]
    penalised = model.generate(repeated, repetition_penalty=1e6, **options).token_ids  # type: ignore[call-overload]
    assert not set(penalised) & set(repeated)
    assert len(set(penalised)) == 8


def test_an_option_that_is_none_is_named_with_the_one_that_is_meant(model: LanguageModel) -> None:
    with pytest.raises(ConfigError, match=r"no option 'max_token'; did you mean max_tokens\?"):
        model.generate("hello", max_token=3)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="no option 'zzz'; expected some of max_tokens, temperature"):
        model.generate("hello", zzz=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("ids", ["x", ["x", "y"], [1.5]])
def test_logits_of_what_are_no_ids_say_how_to_get_them(model: LanguageModel, ids: object) -> None:
    with pytest.raises(ConfigError, match=r"model\.logits\(model\.tokenizer\.encode\(text\)\)"):
        model.logits(ids)  # type: ignore[arg-type]


def test_a_bias_beyond_the_vocabulary_is_refused_before_anything_runs(model: LanguageModel) -> None:
    with pytest.raises(OutOfRangeError, match=f"logit_bias: token {10**30} is outside"):
        model.generate("hello", max_tokens=1, logit_bias={10**30: 1.0}, stream=True)


def test_a_role_that_no_template_knows_is_named_with_the_one_that_is_meant(model: LanguageModel) -> None:
    with pytest.raises(SnellError, match=r"received 'asistant'; did you mean 'assistant'\?"):
        model.generate([{"role": "asistant", "content": "x"}], max_tokens=1)


def test_the_prompt_s_tokens_are_scored_in_chunks(model: LanguageModel) -> None:
    ids = model.tokenizer.encode("hello there")
    small = LanguageModel(model.parts, InterpretingCompiler(), context=64, kv_dtype=f32, chunk=4)
    logits = model.logits(ids).astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    scored = list(small.prompt_logprobs(ids, 2))
    assert [one.token_id for one in scored] == ids[1:]
    np.testing.assert_allclose(
        [one.logprob for one in scored], [expected[k, id_] for k, id_ in enumerate(ids[1:])], atol=1e-4
    )
    assert [one.top[0][0] for one in scored] == logits[:-1].argmax(-1).tolist()
