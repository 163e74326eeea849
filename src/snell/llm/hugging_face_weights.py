"""The weights of a Hugging Face folder: its safetensors files, seen under GGUF's names of weights."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from snell.errors import FileFormatError, ModelNotFoundError
from snell.importers.safetensors import load_safetensors
from snell.llm.compiler_protocol import Array
from snell.llm.stored_weight import StoredWeight, dense_weight

__all__ = ["HuggingFaceWeights", "open_hugging_face_weights"]


@dataclass(frozen=True, slots=True)
class HuggingFaceWeights:
    """A ``WeightSource`` over the arrays of a folder; ``names`` maps GGUF's stems to the folder's, {n} is a layer."""

    folder: Path
    arrays: Mapping[str, Array]
    names: Mapping[str, str]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._own_name(name) in self.arrays

    def stored(self, name: str) -> StoredWeight:
        """The array as it is."""
        own = self._own_name(name)
        if own not in self.arrays:
            raise ModelNotFoundError(f"{self.folder}: no tensor {own!r} among the {len(self.arrays)} of the folder")
        return dense_weight(self.arrays[own])

    def signature(self) -> str:
        """Names, dtypes and shapes of the folder's tensors."""
        return "\n".join(f"{name} {array.dtype} {array.shape}" for name, array in sorted(self.arrays.items()))

    def values(self, name: str) -> npt.NDArray[np.float32]:
        """The array in f32."""
        return self.stored(name).planes["value"].array.astype(np.float32)

    def _own_name(self, name: str) -> str:
        stem, _, kind = name.rpartition(".")
        parts = stem.split(".")
        layer = parts[1] if parts[0] == "blk" and len(parts) > 2 else ""
        template = ".".join(["blk", "{n}", *parts[2:]]) if layer else stem
        return f"{self.names.get(template, template)}.{kind}".replace("{n}", layer)


def open_hugging_face_weights(folder: Path, names: Mapping[str, str]) -> HuggingFaceWeights:
    """All safetensors files of the folder, by its index where it has one.

    A folder saved from the bare model names its tensors without the leading ``model.`` or ``bert.`` of ``names``.
    """
    arrays: dict[str, Array] = {}
    for file in _files(folder):
        arrays.update(load_safetensors(file))
    return HuggingFaceWeights(folder, arrays, _fitting(names, arrays))


def _files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise FileFormatError(f"{index}: expected an object with a weight_map: {error!r}") from error
        return [folder / name for name in sorted(names)]
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelNotFoundError(f"{folder}: no safetensors file in this folder; save the model's weights as one")
    return files


def _fitting(names: Mapping[str, str], arrays: Mapping[str, Array]) -> Mapping[str, str]:
    """The names with the prefix (up to the first dot) that the folder has: as given, or none."""
    embedding = names["token_embd"]
    prefix = embedding.partition(".")[0] + "."
    if f"{embedding}.weight" in arrays or f"{embedding.removeprefix(prefix)}.weight" not in arrays:
        return names
    return {key: name.removeprefix(prefix) for key, name in names.items()}
