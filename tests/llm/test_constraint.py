"""Texts that follow a JSON schema or a grammar, whatever the model would rather say."""

import json
import re
import threading
from functools import cache

import numpy as np
import pytest
from tests.llm.tiny_models import tiny_llama, write_gguf_llama
from tests.models import smollm2_path

from snell.errors import ConfigError, UnsupportedError
from snell.importers.gguf import read_gguf
from snell.llm import LanguageModel, load
from snell.llm import constraint as constraint_module
from snell.llm.constraint import GrammarTokens, schema_grammar
from snell.llm.interpreted import InterpretingCompiler
from snell.llm.sampling import Sampler, SamplingParams
from snell.llm.tokenizer import Tokenizer

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "size": {"enum": ["s", "m"]}, "ok": {"type": "boolean"}},
    "required": ["city", "size", "ok"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    path = write_gguf_llama(
        tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_llama(num_hidden_layers=1, max_position_embeddings=256)
    )
    found = load(path, kv_dtype="f32", compiler=InterpretingCompiler())
    assert isinstance(found, LanguageModel)
    return found


@cache
def smollm2() -> tuple[Tokenizer, GrammarTokens]:
    tokenizer = Tokenizer.from_gguf(read_gguf(smollm2_path()).metadata)
    return tokenizer, GrammarTokens(tokenizer, tokenizer.vocab_size)


def drawn(grammar: str, seed: int, most: int = 400) -> str | None:
    """A text of random tokens that follow the grammar; None where it has no end after ``most``."""
    tokenizer, tokens = smollm2()
    constraint, random = tokens.constraint(grammar, "grammar"), np.random.default_rng(seed)
    sampler, ids = Sampler(SamplingParams(seed=seed)), list[int]()
    try:
        while len(ids) < most:
            allowed = constraint.allowed()
            if allowed is None:
                return tokenizer.decode(ids)
            token = sampler.sample(random.standard_normal(tokenizer.vocab_size).astype(np.float32), allowed)
            if token in tokenizer.eos_ids:
                return tokenizer.decode(ids)
            ids.append(token)
            constraint.accept(token)
        return None
    finally:
        constraint.close()


@pytest.mark.parametrize("seed", range(5))
def test_random_tokens_under_a_schema_are_json_of_the_schema(seed: int) -> None:
    text = drawn(schema_grammar(CITY), seed)
    assert text is not None
    value = json.loads(text)
    assert list(value) == ["city", "size", "ok"]
    assert len(value["city"]) <= 8
    assert value["size"] in ("s", "m")
    assert isinstance(value["ok"], bool)
    assert re.search(r"\s{25}", text) is None


@pytest.mark.parametrize("seed", range(5))
def test_random_tokens_under_a_grammar_are_texts_of_it(seed: int) -> None:
    text = drawn('start: "move " direction (" " /[1-9][0-9]?/)?\ndirection: "north" | "south"', seed)
    assert text is not None
    assert re.fullmatch(r"move (north|south)( [1-9][0-9]?)?", text)


@pytest.mark.parametrize("schema", [CITY, json.dumps(CITY)], ids=["object", "text"])
def test_a_model_of_random_weights_answers_in_the_schema(model: LanguageModel, schema) -> None:
    generation = model.generate("hello", max_tokens=150, seed=1, json_schema=schema)
    assert generation.finish_reason == "stop"
    assert json.loads(generation.text)["size"] in ("s", "m")


def test_a_text_ends_where_the_grammar_ends(model: LanguageModel) -> None:
    generation = model.generate("hello", max_tokens=50, seed=1, grammar='start: "yes" | "no"')
    assert generation.text in ("yes", "no")
    assert generation.finish_reason == "stop"


def test_logprobs_are_those_of_the_distribution_without_the_grammar(model: LanguageModel) -> None:
    generation = model.generate("hello", max_tokens=1, temperature=0.0, logprobs=0, grammar='start: "z"')
    assert generation.logprobs is not None
    logits = model.logits(model.tokenizer.encode("hello"))[-1].astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum())
    assert generation.logprobs[0].logprob == pytest.approx(expected[generation.token_ids[0]], abs=1e-5)


@pytest.mark.parametrize("taken", [0, 1])
def test_a_stream_that_is_left_leaves_no_thread_behind(model: LanguageModel, taken: int) -> None:
    before = threading.active_count()
    with model.generate("hello", max_tokens=50, seed=1, json_schema=CITY, stream=True) as stream:
        for _ in range(taken):
            next(stream)
        assert threading.active_count() == before + 1
    for thread in threading.enumerate():
        if thread.name.startswith("snell-grammar"):
            thread.join(timeout=10)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"json_schema": {"type": "objct"}}, "json_schema: .*objct"),
        ({"json_schema": "{"}, "json_schema: expected JSON"),
        ({"json_schema": "3"}, "json_schema: expected an object"),
        ({"json_schema": {"minContains": 3}}, "json_schema: .*minContains"),
        ({"grammar": "start: missing"}, "grammar: .*missing"),
        ({"grammar": 'start: "a"', "json_schema": {}}, "json_schema and grammar: expected one"),
    ],
)
def test_what_is_no_schema_or_grammar_is_named(model: LanguageModel, options, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        model.generate("hello", max_tokens=1, **options)


def test_without_llguidance_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        def __getattr__(self, name: str) -> object:
            raise ModuleNotFoundError(name)

    monkeypatch.setattr(constraint_module, "llguidance", Missing())
    with pytest.raises(UnsupportedError, match=r"pip install 'snell\[serve\]'"):
        GrammarTokens(smollm2()[0], 10)


def test_a_model_may_score_fewer_or_more_ids_than_the_tokenizer_has() -> None:
    tokenizer, _ = smollm2()
    for logits in (tokenizer.vocab_size - 100, tokenizer.vocab_size + 64):
        constraint = GrammarTokens(tokenizer, logits).constraint('start: "a"', "grammar")
        allowed = constraint.allowed()
        constraint.close()
        assert allowed is not None
        assert np.flatnonzero(allowed).tolist() == tokenizer.encode("a")
        assert allowed.size == logits
