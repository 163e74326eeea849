"""The real models and outside judges that tests use: found in the user's data folder, installed there if missing."""

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
    folder = model_store().folder.parent / "judges"
    target = folder / "llama.cpp-models-0.3.36"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        requirement = ["--no-deps", "--no-binary", "llama-cpp-python", "llama-cpp-python==0.3.36"]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *requirement], check=True
        )
        archive = folder / "llama_cpp_python-0.3.36.tar.gz"
        partial = folder / f".partial-{id(archive)}"
        with tarfile.open(archive) as source:
            members = [member for member in source.getmembers() if "/vendor/llama.cpp/models/" in member.name]
            source.extractall(partial, members=members, filter="data")
        (partial / "llama_cpp_python-0.3.36/vendor/llama.cpp/models").rename(target)
        archive.unlink()
    return target
