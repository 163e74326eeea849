"""The weights of a Hugging Face folder: its safetensors files, seen under GGUF's names of weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from snell.errors import FileFormatError, ModelNotFoundError
from snell.importers.mapping import release_pages
from snell.importers.safetensors import load_safetensors
from snell.llm.compiler_protocol import Array
from snell.llm.stored_weight import StoredWeight, dense_weight

__all__ = ["HuggingFaceWeights", "open_hugging_face_weights"]

_EXPERT = "{e}"


@dataclass(frozen=True, slots=True)
class HuggingFaceWeights:
    """A ``WeightSource`` over the arrays of a folder; ``names`` maps GGUF's stems to the folder's.

    {n} stands for a layer, {e} for an expert: a folder has one array an expert where GGUF has one for all, so those
    are copied into one.  ``norm_offset`` is added to the weights of norms.
    """

    folder: Path
    paths: tuple[Path, ...]
    arrays: Mapping[str, Array]
    names: Mapping[str, str]
    norm_offset: float = 0.0
    _joined: dict[str, Array] = field(default_factory=dict[str, Array])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._first_name(name) in self.arrays

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the array, or of the experts' arrays as one."""
        first = self._first(name).shape
        return (len(self._experts(name)), *first) if _EXPERT in self._own_name(name) else first

    def described(self, name: str) -> str:
        """The folder and the tensor."""
        return f"{self.folder}: tensor {self._first_name(name)!r}"

    def stored(self, name: str) -> StoredWeight:
        """The array as it is, or those of all experts as one."""
        offset = self.norm_offset if name.endswith("norm.weight") else 0.0
        own = self._own_name(name)
        if _EXPERT not in own:
            return dense_weight(self._first(name), offset)
        if own not in self._joined:
            experts, first = self._experts(name), self._first(name)
            for expert, array in enumerate(experts):
                if array.shape != first.shape:
                    raise FileFormatError(
                        f"{self.folder}: tensor {own.replace(_EXPERT, str(expert))!r}: expected shape {first.shape}, "
                        f"as of expert 0, received {array.shape}; fetch the folder again"
                    )
            self._joined[own] = np.stack(experts)
        return dense_weight(self._joined[own], offset)

    def signature(self) -> str:
        """Names, dtypes and shapes of the folder's tensors."""
        return "\n".join(f"{name} {array.dtype} {array.shape}" for name, array in sorted(self.arrays.items()))

    def files(self) -> tuple[Path, ...]:
        """The folder's files of weights."""
        return self.paths

    def release(self) -> None:
        """Give back the pages of the files that have been read."""
        for array in self.arrays.values():
            release_pages(array)
        self._joined.clear()

    def values(self, name: str) -> npt.NDArray[np.float32]:
        """The array in f32."""
        return self.stored(name).planes["value"].array.astype(np.float32)

    def _first(self, name: str) -> Array:
        own = self._first_name(name)
        if own not in self.arrays:
            raise ModelNotFoundError(f"{self.folder}: no tensor {own!r} among the {len(self.arrays)} of the folder")
        return self.arrays[own]

    def _experts(self, name: str) -> list[Array]:
        own = self._own_name(name)
        found: list[Array] = []
        while (expert := own.replace(_EXPERT, str(len(found)))) in self.arrays:
            found.append(self.arrays[expert])
        return found

    def _first_name(self, name: str) -> str:
        return self._own_name(name).replace(_EXPERT, "0")

    def _own_name(self, name: str) -> str:
        stem, _, kind = name.rpartition(".")
        parts = stem.split(".")
        layer = parts[1] if parts[0] == "blk" and len(parts) > 2 else ""
        template = ".".join(["blk", "{n}", *parts[2:]]) if layer else stem
        return f"{self.names.get(template, template)}.{kind}".replace("{n}", layer)


def open_hugging_face_weights(folder: Path, names: Mapping[str, str], norm_offset: float = 0.0) -> HuggingFaceWeights:
    """All safetensors files of the folder, by its index where it has one.

    Where a folder's model is a part of another, or was saved bare, its tensors have another prefix than the one of
    ``names`` (``model.`` or ``bert.``); it is the one that the token embedding has.
    """
    arrays: dict[str, Array] = {}
    paths = tuple(_files(folder))
    for path in paths:
        arrays.update(load_safetensors(path))
    return HuggingFaceWeights(folder, paths, arrays, _fitting(names, arrays), norm_offset)


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
    """The names with the prefix (up to the first dot) that the folder's token embedding has."""
    prefix, _, bare = names["token_embd"].partition(".")
    embedding = f"{bare}.weight"
    if f"{prefix}.{embedding}" in arrays:
        return names
    found = next((name for name in sorted(arrays) if name == embedding or name.endswith("." + embedding)), None)
    if found is None:
        return names
    own = found.removesuffix(embedding)
    return {
        key: own + name.removeprefix(prefix + ".") if name.startswith(prefix + ".") else name
        for key, name in names.items()
    }
