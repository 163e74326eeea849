"""The bert family against transformers, through the reference interpreter, and MiniLM's stated embeddings."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.llm.tiny_models import save_folder, tiny_bert
from tests.models import minilm_path

from snell.errors import ConfigError, ContextLengthError, UnsupportedError
from snell.llm import EmbeddingModel, load
from snell.llm.interpreted import InterpretingCompiler

TEXTS = ["hello", "a much longer sentence, of many tokens", "x"]


def opened(path: Path, **options: Any) -> EmbeddingModel:
    model = load(path, compiler=InterpretingCompiler(), **options)
    assert isinstance(model, EmbeddingModel)
    return model


@pytest.fixture
def tiny(tmp_path: Path) -> EmbeddingModel:
    return opened(save_folder(tiny_bert(), tmp_path))


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_pooled_states_equal_those_of_transformers(tmp_path: Path, pooling: str) -> None:
    judge = tiny_bert(layer_norm_eps=1e-3)
    model = opened(save_folder(judge, tmp_path))
    for text, vector in zip(TEXTS, model.embed(TEXTS, pooling=pooling, normalize=False), strict=True):
        with torch.no_grad():
            states = judge(torch.tensor([model.tokenizer.encode(text)])).last_hidden_state[0].numpy()
        expected = {"mean": states.mean(axis=0), "cls": states[0], "last": states[-1]}[pooling]
        np.testing.assert_allclose(vector, expected, atol=1e-4)


def test_padding_changes_nothing(tiny: EmbeddingModel) -> None:
    together = tiny.embed(TEXTS)
    alone = np.concatenate([tiny.embed(text) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_vectors_have_length_one_also_when_cut(tiny: EmbeddingModel) -> None:
    cut = tiny.embed(TEXTS, dimensions=8)
    whole = tiny.embed(TEXTS, normalize=False)
    assert cut.shape == (3, 8)
    assert cut.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(cut, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(cut, whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True), atol=1e-6)


def test_a_text_that_is_too_long_is_an_error_unless_truncated(tmp_path: Path) -> None:
    model = opened(save_folder(tiny_bert(), tmp_path), context=4)
    with pytest.raises(ContextLengthError, match="text 1 has 5 tokens, the model takes 4"):
        model.embed(["x", "hello"])
    np.testing.assert_array_equal(model.embed("hello", truncate=True), model.embed("hell"))


def test_the_pooling_of_the_folder_is_the_default(tmp_path: Path) -> None:
    folder = save_folder(tiny_bert(), tmp_path)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    model = opened(folder)
    np.testing.assert_array_equal(model.embed(TEXTS), model.embed(TEXTS, pooling="cls"))
    with pytest.raises(ConfigError, match="one of mean, cls, last, received 'max'"):
        model.embed(TEXTS, pooling="max")


def test_an_encoder_says_that_it_cannot_generate(tiny: EmbeddingModel) -> None:
    with pytest.raises(UnsupportedError, match="use embed"):
        tiny.generate("hello")


def test_minilm_embeds_as_stated() -> None:
    model = opened(minilm_path())
    sentences = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
    assert model.tokenizer.encode(sentences[0]) == [101, 1037, 2158, 2003, 5983, 2833, 1012, 102]
    vectors = model.embed(sentences)
    np.testing.assert_allclose(vectors[0, :4], [0.0332, 0.0044, -0.0063, 0.0484], atol=5e-5)
    np.testing.assert_allclose(vectors[1:] @ vectors[0], [0.7553, -0.105], atol=5e-4)
