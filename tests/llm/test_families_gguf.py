"""Every family as a GGUF file that llama.cpp's own converter wrote, against transformers and llama.cpp.

``LLAMA_CPP_TOKENS`` are what llama-cpp-python 0.3.36 (f32 weights and cache, one thread) chose greedily behind ``IDS``
in these files; the weights follow from the names of the families, so the files are the same everywhere.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.llm.family_models import GGUF_CHANGES, GGUF_NAMES, family_model
from tests.llm.test_families import IDS
from tests.llm.tiny_models import judged_logits, save_folder
from tests.models import llama_cpp_converter

from snell.config import process_environment
from snell.llm import LanguageModel, load
from snell.llm.interpreted import InterpretingCompiler

LLAMA_CPP_TOKENS = {
    "llama": [206, 257, 58, 42, 63, 14],
    "smollm": [182, 192, 182, 147, 200, 100],
    "llama-linear": [165, 196, 138, 25, 163, 113],
    "llama-yarn": [179, 12, 19, 61, 19, 200],
    "llama3": [90, 163, 67, 113, 230, 99],
    "mistral": [84, 6, 33, 62, 112, 17],
    "mixtral": [144, 195, 148, 187, 97, 49],
    "qwen2": [66, 64, 59, 97, 138, 153],
    "qwen2.5-yarn": [84, 255, 100, 27, 221, 84],
    "qwen3": [76, 251, 61, 191, 252, 169],
    "qwen2-moe": [191, 114, 172, 136, 64, 191],
    "qwen3-moe": [27, 79, 246, 206, 140, 152],
    "phi3": [158, 34, 123, 34, 144, 223],
    "phi3-longrope": [236, 12, 82, 12, 165, 20],
    "phi4-mini": [227, 60, 105, 179, 132, 178],
    "gemma2": [151, 151, 151, 151, 151, 151],
    "gemma3": [66, 66, 66, 66, 66, 66],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All families' files, written by one process."""
    root = tmp_path_factory.mktemp("families")
    # llama.cpp treats vocabularies by the names of models, which are those of the folders.
    folders = [
        save_folder(family_model(name, **GGUF_CHANGES.get(name, {})), root / str(number))
        for number, name in enumerate(GGUF_NAMES)
    ]
    paths = os.pathsep.join(str(path) for path in llama_cpp_converter())
    program = Path(__file__).with_name("convert_folders.py")
    environment = process_environment() | {"PYTHONPATH": paths}
    subprocess.run([sys.executable, program, *folders], check=True, env=environment, capture_output=True)
    return {name: folder / "model.gguf" for name, folder in zip(GGUF_NAMES, folders, strict=True)}


@pytest.mark.parametrize("name", GGUF_NAMES)
def test_a_converted_file_gives_the_logits_of_transformers_and_the_tokens_of_llama_cpp(
    files: dict[str, Path], name: str
) -> None:
    tokens = LLAMA_CPP_TOKENS[name]
    model = load(files[name], context=64, kv_dtype="f32", compiler=InterpretingCompiler())
    assert isinstance(model, LanguageModel)
    logits = model.logits([*IDS, *tokens])
    expected = judged_logits(family_model(name, **GGUF_CHANGES.get(name, {})), [*IDS, *tokens])
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    if name != "phi3":  # whose window llama.cpp leaves out
        assert logits[len(IDS) - 1 : -1].argmax(axis=1).tolist() == tokens
