"""Reading a model's hyperparameters from GGUF metadata or a ``config.json``: typed, with errors that name the key."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from snell.errors import FileFormatError, ModelNotFoundError
from snell.importers.gguf import GGUFFile

__all__ = ["Hyperparameters", "gguf_hyperparameters", "read_json"]

_MOST_LAYERS = 4096


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The values by key; ``prefix`` goes before each key (a GGUF file's architecture), ``where`` into the errors."""

    values: Mapping[str, Any]
    where: str
    prefix: str = ""

    def __contains__(self, key: str) -> bool:
        return self.values.get(self.prefix + key) is not None

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number; one for each layer is accepted where all are equal."""
        value = self._found(key, default)
        if isinstance(value, np.ndarray):
            distinct: list[Any] = np.unique(cast("npt.NDArray[Any]", value)).tolist()
            value = distinct[0] if len(distinct) == 1 else distinct
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self._wrong(key, "a whole number", value)

    def layers(self, key: str) -> int:
        """How many layers: no model has as many as a damaged file may say, and a list with an item for each would not fit."""
        value = self.integer(key)
        if not 1 <= value <= _MOST_LAYERS:
            raise self._wrong(key, f"1 to {_MOST_LAYERS} layers", value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number."""
        value = self._found(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise self._wrong(key, "a number", value)

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._found(key, default)
        if isinstance(value, str):
            return value
        raise self._wrong(key, "a string", value)

    def flag(self, key: str, default: bool) -> bool:
        """A boolean."""
        value = self._found(key, default)
        if isinstance(value, bool):
            return value
        raise self._wrong(key, "a boolean", value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of numbers."""
        return tuple(float(value) for value in self._items(key, None, int | float, "a list of numbers"))

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers; empty where there is none."""
        return tuple(self._items(key, [], int, "a list of whole numbers"))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(self._items(key, None, str, "a list of strings"))

    def group(self, key: str) -> "Hyperparameters":
        """A nested object; empty where there is none."""
        value = self.values.get(self.prefix + key)
        if value is None:
            return Hyperparameters({}, f"{self.where}: {key}")
        if isinstance(value, Mapping):
            return Hyperparameters(cast("Mapping[str, Any]", value), f"{self.where}: {key}")
        raise self._wrong(key, "an object", value)

    def _items(self, key: str, default: object, kind: Any, expected: str) -> list[Any]:
        value = self._found(key, default)
        items = cast("list[Any]", value) if isinstance(value, list) else [None]
        if not all(isinstance(item, kind) and not isinstance(item, bool) for item in items):
            raise self._wrong(key, expected, value)
        return items

    def _found(self, key: str, default: object) -> Any:
        value = self.values.get(self.prefix + key)
        if value is None:
            value = default
        if value is None:
            raise FileFormatError(f"{self.where}: the key {self.prefix + key!r} is missing; convert the model again")
        return value

    def _wrong(self, key: str, expected: str, received: object) -> FileFormatError:
        return FileFormatError(f"{self.where}: key {self.prefix + key!r}: expected {expected}, received {received!r}")


def gguf_hyperparameters(file: GGUFFile) -> Hyperparameters:
    """The keys of the file's architecture, without its name before them."""
    whole = Hyperparameters(file.metadata, str(file.path))
    return Hyperparameters(whole.values, whole.where, whole.text("general.architecture") + ".")


def read_json(path: Path) -> Hyperparameters:
    """The JSON object in a file."""
    if not path.is_file():
        raise ModelNotFoundError(f"{path}: expected a JSON file of the model, found no file at this path")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileFormatError(f"{path}: expected JSON: {error}") from error
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: expected a JSON object, received {type(value).__name__}")
    return Hyperparameters(cast("dict[str, Any]", value), str(path))
