"""Every family of text generators, opened from a Hugging Face folder, against transformers."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.llm.family_models import NAMES, family_model
from tests.llm.tiny_models import judged_logits, save_folder

from snell.llm import LanguageModel, load
from snell.llm.interpreted import InterpretingCompiler

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
