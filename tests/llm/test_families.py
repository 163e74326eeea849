"""Every family of text generators, opened from a Hugging Face folder, against transformers."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.llm.family_models import NAMES, family_model, write_config
from tests.llm.tiny_models import judged_logits, save_folder

from snell.config import Config
from snell.engine.engine import Engine
from snell.errors import FileFormatError, ModelNotFoundError
from snell.llm import LanguageModel, load
from snell.llm.engine_compiler import EngineCompiler
from snell.llm.interpreted import InterpretingCompiler
from snell.rewrite.policy import Policy

# Longer than the windows, and than the first length of models whose positions are stretched.
IDS = [256, *(int(place * 37 % 251) for place in range(39))]


@cache
def expected(name: str) -> np.ndarray:
    return judged_logits(family_model(name), IDS)


def opened(path: Path, chunk: int = 64) -> LanguageModel:
    model = load(path, context=len(IDS), kv_dtype="f32", compiler=InterpretingCompiler())
    assert isinstance(model, LanguageModel)
    return LanguageModel(
        model.parts, InterpretingCompiler(), context=len(IDS), kv_dtype=model.kv_dtype, chunk=min(chunk, len(IDS))
    )


@pytest.mark.parametrize("name", NAMES)
def test_logits_of_a_folder_equal_those_of_transformers(tmp_path: Path, name: str) -> None:
    folder = save_folder(family_model(name), tmp_path)
    whole = opened(folder).logits(IDS)
    np.testing.assert_allclose(whole, expected(name), atol=1e-4)
    np.testing.assert_allclose(opened(folder, chunk=7).logits(IDS), whole, atol=1e-5)


@pytest.mark.parametrize("name", ["gemma2", "qwen3-moe"])
def test_compiled_logits_equal_those_of_transformers(tmp_path: Path, name: str) -> None:
    folder = save_folder(family_model(name), tmp_path / "model")
    config = Config(threads=2, cache_dir=tmp_path, data_dir=tmp_path)
    model = load(folder, context=len(IDS), kv_dtype="f32", compiler=EngineCompiler(Engine(config), Policy.DEFAULT))
    np.testing.assert_allclose(model.logits(IDS), expected(name), atol=1e-4)


def test_a_tensor_of_another_shape_is_named_on_loading(tmp_path: Path) -> None:
    folder = save_folder(family_model("llama"), tmp_path)
    write_config(folder, intermediate_size=64)
    with pytest.raises(
        FileFormatError, match=r"layers\.0\.mlp\.gate_proj.*expected shape \(64, 40\), received \(56, 40\)"
    ):
        load(folder)


@pytest.mark.parametrize("key", ["hidden_size", "rms_norm_eps", "num_hidden_layers"])
def test_a_missing_setting_is_named(tmp_path: Path, key: str) -> None:
    folder = save_folder(family_model("llama"), tmp_path)
    write_config(folder, **{key: None})
    with pytest.raises(FileFormatError, match=f"'{key}' is missing"):
        load(folder)


@pytest.mark.parametrize("layers", [0, -1, 1 << 31])
def test_a_number_of_layers_that_no_model_has_is_refused_at_once(tmp_path: Path, layers: int) -> None:
    folder = save_folder(family_model("llama"), tmp_path)
    write_config(folder, num_hidden_layers=layers)
    with pytest.raises(FileFormatError, match="expected 1 to 4096 layers"):
        load(folder)


def test_a_missing_tensor_is_named_on_loading(tmp_path: Path) -> None:
    folder = save_folder(family_model("qwen2"), tmp_path)
    write_config(folder, num_hidden_layers=4, layer_types=None)
    with pytest.raises(ModelNotFoundError, match=r"model\.layers\.3\.input_layernorm"):
        load(folder)
