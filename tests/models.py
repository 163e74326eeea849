"""The real models and outside judges that tests use: found in the user's data folder, installed there if missing."""

import os
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path

from snell.config import Config, process_environment
from snell.store import ModelStore


def model_store() -> ModelStore:
    return ModelStore(Config.from_environment(process_environment()).data_dir / "models")


@cache
def smollm2_path() -> Path:
    """The GGUF file of SmolLM2 135M."""
    return model_store().install("smollm2")


@cache
def minilm_path() -> Path:
    """The folder of all-MiniLM-L6-v2."""
    return model_store().install("minilm")


@cache
def gemma_path() -> Path:
    """The GGUF file of Gemma 3 270M."""
    return model_store().install("gemma3-270m")


@cache
def llama_cpp_models() -> Path:
    """llama.cpp's own ``models`` folder: real vocabularies with expected token ids, and chat templates."""
    return _llama_cpp_part("models", "models", ("models/",))


@cache
def llama_cpp_converter() -> tuple[Path, Path]:
    """Where llama.cpp's converter of Hugging Face folders and the ``gguf`` package that it needs are imported from."""
    part = _llama_cpp_part("converter", "", ("conversion/", "gguf-py/gguf/"))
    return part, part / "gguf-py"


def _llama_cpp_part(name: str, inner: str, wanted: tuple[str, ...]) -> Path:
    """A folder with a part of llama.cpp's source, as the source package llama-cpp-python carries it."""
    folder = model_store().folder.parent / "judges"
    target = folder / f"llama.cpp-{name}-0.3.36"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / "llama_cpp_python-0.3.36.tar.gz"
        if not archive.exists():
            requirement = ["--no-deps", "--no-binary", "llama-cpp-python", "llama-cpp-python==0.3.36"]
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *requirement], check=True
            )
        partial = folder / f".partial-{name}-{os.getpid()}"
        source = "llama_cpp_python-0.3.36/vendor/llama.cpp/"
        with tarfile.open(archive) as opened:
            prefixes = tuple(source + prefix for prefix in wanted)
            members = [member for member in opened.getmembers() if member.name.startswith(prefixes)]
            opened.extractall(partial, members=members, filter="data")
        (partial / source / inner).rename(target)
    return target
