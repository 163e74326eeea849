"""Where the models that are measured lie; one that is missing is installed, or written, untimed, on first use."""

from pathlib import Path

from snell.bench.formats import requantised, split_format
from snell.config import Config, process_environment
from snell.store import ModelStore

__all__ = ["model_path"]


def model_path(name: str) -> Path:
    """The file or folder of the model with that short name, which may end in a format: ``smollm2-q4_0``."""
    folder = Config.from_environment(process_environment()).data_dir
    model, quantisation = split_format(name)
    path = ModelStore(folder / "models").install(model)
    return path if quantisation is None else requantised(path, quantisation, folder / "bench" / f"{name}.gguf")
