"""Where the models that are measured lie; one that is missing is installed, untimed, on first use."""

from pathlib import Path

from snell.config import Config, process_environment
from snell.store import ModelStore

__all__ = ["model_path"]


def model_path(name: str) -> Path:
    """The file or folder of the model with that short name."""
    return ModelStore(Config.from_environment(process_environment()).data_dir / "models").install(name)
