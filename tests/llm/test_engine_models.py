"""Language models through compiled programs: equal to the reference interpreter, and to the stated answers."""

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from tests.llm.tiny_models import EOS, save_folder, tiny_bert, tiny_llama, write_gguf_llama
from tests.models import minilm_path, smollm2_path

from snell.config import Config, process_environment
from snell.engine.engine import Engine
from snell.llm import EmbeddingModel, LanguageModel, load
from snell.llm.compiler_protocol import Compiler
from snell.llm.engine_compiler import EngineCompiler
from snell.llm.interpreted import InterpretingCompiler
from snell.rewrite.policy import Policy

IDS = [256, 5, 77, 200, 13, 13, 91, 250, 0, 42, 7]
KINDS = {"Q4_1": gguf.GGMLQuantizationType.Q4_1, "Q8_0": gguf.GGMLQuantizationType.Q8_0, "F32": None}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EngineCompiler:
    config = replace(Config.from_environment(process_environment()), cache_dir=tmp_path_factory.mktemp("cache"))
    return EngineCompiler(Engine(config), Policy.DEFAULT)


def language_model(path: Path, compiler: Compiler, kv_dtype: str = "f32") -> LanguageModel:
    model = load(path, kv_dtype=kv_dtype, compiler=compiler)
    assert isinstance(model, LanguageModel)
    return model


@pytest.mark.parametrize(
    "name",
    [
        "Q4_1",
        "Q8_0",
        # rewrite/cut.py, _core_cost: the view of an inlined reduction (the embedding's gather) has another rank.
        "F32",
    ],
)
def test_decoding_with_a_cache_equals_interpreted_passes(tmp_path: Path, engine: EngineCompiler, name: str) -> None:
    path = write_gguf_llama(tmp_path / "tiny.gguf", tiny_llama(), KINDS[name])
    judge = language_model(path, InterpretingCompiler())
    generation = language_model(path, engine).generate(
        IDS, max_tokens=4, temperature=0.0, logprobs=0, logit_bias={EOS: -1e9}
    )
    assert generation.logprobs is not None
    logits = judge.logits([*IDS, *generation.token_ids]).astype(np.float64)[len(IDS) - 1 : -1]
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    chosen = expected[np.arange(4), list(generation.token_ids)]
    np.testing.assert_allclose([one.logprob for one in generation.logprobs], chosen, atol=1e-4)
    logits[:, EOS] = -np.inf
    assert list(generation.token_ids) == logits.argmax(axis=1).tolist()


def test_logits_of_every_position_equal_the_interpreted_ones(tmp_path: Path, engine: EngineCompiler) -> None:
    path = write_gguf_llama(tmp_path / "tiny.gguf", tiny_llama(), gguf.GGMLQuantizationType.Q4_1)
    expected = language_model(path, InterpretingCompiler()).logits(IDS)
    np.testing.assert_allclose(language_model(path, engine).logits(IDS), expected, atol=1e-4)


def test_an_encoder_equals_the_interpreted_one(tmp_path: Path, engine: EngineCompiler) -> None:
    folder = save_folder(tiny_bert(), tmp_path)
    texts = ["hello", "a longer sentence of many tokens", "x"]
    compiled, judge = load(folder, compiler=engine), load(folder, compiler=InterpretingCompiler())
    for pooling in ("mean", "cls"):
        expected = judge.embed(texts, pooling=pooling)
        np.testing.assert_allclose(compiled.embed(texts, pooling=pooling), expected, atol=1e-5)


def test_minilm_embeds_as_stated(engine: EngineCompiler) -> None:
    model = load(minilm_path(), compiler=engine)
    assert isinstance(model, EmbeddingModel)
    sentences = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
    vectors = model.embed(sentences)
    np.testing.assert_allclose(vectors[0, :4], [0.0332, 0.0044, -0.0063, 0.0484], atol=5e-5)
    np.testing.assert_allclose(vectors[1:] @ vectors[0], [0.7553, -0.105], atol=5e-4)
    np.testing.assert_allclose(vectors, np.concatenate([model.embed(text) for text in sentences]), atol=1e-6)


@pytest.mark.slow
def test_smollm2_answers_as_stated(engine: EngineCompiler) -> None:
    model = language_model(smollm2_path(), engine, kv_dtype="f16")
    continued = model.generate("The capital of France is", max_tokens=6, temperature=0.0)
    assert continued.token_ids == (7042, 30, 198, 198, 504, 2988)
    answer = model.generate([{"role": "user", "content": "What is 2+2?"}], max_tokens=32, temperature=0.0)
    assert (answer.text, answer.finish_reason) == ("The answer to this classic math problem is 4.", "stop")


def test_packed_weights_are_kept_for_the_next_process_and_made_again_for_a_changed_file(tmp_path: Path) -> None:
    path = write_gguf_llama(tmp_path / "tiny.gguf", tiny_llama(), KINDS["Q8_0"])
    config = replace(Config.from_environment(process_environment()), cache_dir=tmp_path / "cache")

    def answers(place: Path) -> list[int]:
        model = language_model(place, EngineCompiler(Engine(config), Policy.FAST))
        return list(model.generate(IDS, max_tokens=6, temperature=0.0, logit_bias={EOS: -1e9}).token_ids)

    def kept() -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in (tmp_path / "cache" / "models").rglob("*") if file.is_file()}

    first = answers(path)
    files = kept()
    assert files
    assert answers(path) == first
    assert kept() == files
    changed = tiny_llama()
    for parameter in changed.parameters():
        parameter.data = parameter.data.flip(-1).contiguous()
    other = write_gguf_llama(tmp_path / "other.gguf", changed, KINDS["Q8_0"])
    expected = answers(other)
    path.write_bytes(other.read_bytes())
    assert answers(path) == expected
    for file in kept():
        data = file.read_bytes()
        file.unlink()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert answers(path) == expected
