"""Checkpoints: a train state and a position in the data, on disk, such that training goes on bit for bit.

A checkpoint is a folder `step-00000042` with `arrays.safetensors` (every leaf of the state, named by its path) and
`checkpoint.json` (format, step, data position, and what the user adds).  It is written beside its place and renamed, so
it exists whole or not at all, also where the process is killed.  A folder has one writer at a time: what an earlier one
left unfinished, the next save removes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from snell import trees
from snell.engine.array import Array
from snell.errors import ConfigError, FileFormatError, ModelNotFoundError
from snell.importers.safetensors import load_safetensors, save_safetensors
from snell.train.train_state import TrainState

__all__ = ["Checkpoints", "Restored"]

_FORMAT = 1
_ARRAYS, _DESCRIPTION = "arrays.safetensors", "checkpoint.json"
_NAME = re.compile(r"step-(?P<step>\d+)")
_UNFINISHED = re.compile(r"\.step-(?P<step>\d+)\..*")
_REPLACED = ".old"


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """A state that was saved, the position of its data (None where none was saved), and what else was said."""

    ts: TrainState
    data: Any
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints in a folder, which is made where it is missing; the `keep` latest stay (None: all).

    Raises ConfigError for a `keep` below 1.
    """

    folder: str | os.PathLike[str]
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise ConfigError(f"keep: expected at least 1 checkpoint, or None for all, received {self.keep}")

    def save(self, ts: TrainState, data: Any = None, extra: Mapping[str, Any] | None = None) -> Path:
        """Write the state, with a data loader's `position` and anything that JSON holds; gives the checkpoint's folder.

        A checkpoint of the same step is replaced.
        """
        step = int(ts.step)
        description = {"format": _FORMAT, "step": step, "data": data, "extra": dict(extra or {})}
        text = _as_json(description)
        root = Path(self.folder)
        root.mkdir(parents=True, exist_ok=True)
        _clean(root)
        target = root / f"step-{step:08d}"
        temporary = Path(tempfile.mkdtemp(dir=root, prefix=f".{target.name}."))
        try:
            save_safetensors(temporary / _ARRAYS, _by_name(ts))
            _write(temporary / _DESCRIPTION, text)
            _replace(temporary, target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        self._forget_old()
        return target

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending."""
        return sorted(_places(Path(self.folder)))

    def restore(self, like: TrainState, step: int | None = None) -> Restored:
        """The state of a step (None: of the latest), with the model, optimizer and options of `like`.

        Raises ModelNotFoundError where there is no such checkpoint, FileFormatError for a damaged one, and ConfigError,
        naming the leaves, for one whose arrays are not those of `like`.
        """
        found = _places(Path(self.folder))
        wanted = step if step is not None else max(found, default=None)
        if wanted is None or wanted not in found:
            there = f"has those of steps {', '.join(map(str, sorted(found)))}" if found else "has none"
            raise ModelNotFoundError(
                f"{os.fspath(self.folder)}: expected a checkpoint{f' of step {step}' if step is not None else ''}; "
                f"the folder {there}"
            )
        folder = found[wanted]
        description = _description(folder / _DESCRIPTION)
        arrays = load_safetensors(folder / _ARRAYS)
        return Restored(_restored(like, arrays, folder), description.get("data"), description.get("extra") or {})

    def _forget_old(self) -> None:
        if self.keep is not None:
            for step in self.steps()[: -self.keep]:
                # Out of sight first: half of a checkpoint is none.
                old = Path(self.folder) / f"step-{step:08d}"
                hidden = Path(tempfile.mkdtemp(dir=self.folder, prefix=f".{old.name}."))
                os.replace(old, hidden)
                shutil.rmtree(hidden)


def _by_name(ts: TrainState) -> dict[str, np.ndarray[Any, Any]]:
    variables = ts.variables()
    names = [".".join(path) for path in trees.paths(variables)]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ConfigError(f"two leaves are both named {', '.join(twice)}; use no dots in the names of layers")
    return {name: np.asarray(leaf) for name, leaf in zip(names, trees.leaves(variables), strict=True)}


def _restored(like: TrainState, arrays: Mapping[str, np.ndarray[Any, Any]], folder: Path) -> TrainState:
    wanted = _by_name(like)
    missing, unknown = sorted(wanted.keys() - arrays.keys()), sorted(arrays.keys() - wanted.keys())
    if missing or unknown:
        raise ConfigError(
            f"{folder} belongs to another model or optimizer: missing {_some(missing)}, not expected {_some(unknown)}"
        )
    for name, array in wanted.items():
        if (arrays[name].shape, arrays[name].dtype) != (array.shape, array.dtype):
            raise ConfigError(
                f"{folder}: {name} is {arrays[name].dtype}{arrays[name].shape}, this state has {array.dtype}{array.shape}"
            )
    # Copied out of the file's memory map: a step may overwrite what it is given.
    leaves = [Array(np.array(arrays[name])) for name in wanted]
    return like.with_variables(trees.unflatten(trees.flatten(like.variables())[1], leaves))


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5]) or "nothing"
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def _as_json(description: Mapping[str, Any]) -> str:
    try:
        return json.dumps(description, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"data and extra of a checkpoint must be what JSON holds: {error}") from None


def _description(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{file}: expected the JSON of a checkpoint: {error}") from error
    if not isinstance(found, dict) or cast("dict[str, Any]", found).get("format") != _FORMAT:
        raise FileFormatError(f"{file}: expected a checkpoint of format {_FORMAT}, received another")
    return cast("dict[str, Any]", found)


def _write(file: Path, text: str) -> None:
    with file.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _places(root: Path) -> dict[int, Path]:
    """Where the checkpoint of each step is: beside its place where a writer was killed between the renames of `_replace`."""
    entries = list(root.iterdir()) if root.is_dir() else []
    aside = [(m, e) for e in entries if e.name.endswith(_REPLACED) and (m := _UNFINISHED.fullmatch(e.name))]
    whole = [(m, e) for e in entries if (m := _NAME.fullmatch(e.name))]
    return {int(match["step"]): entry for match, entry in (*aside, *whole)}


def _clean(root: Path) -> None:
    """Remove what a killed writer left, and put back what it had moved aside."""
    for entry in _places(root).values():
        match = _UNFINISHED.fullmatch(entry.name)
        if match:
            os.replace(entry, root / f"step-{match['step']}")
    for entry in root.iterdir():
        if _UNFINISHED.fullmatch(entry.name):
            shutil.rmtree(entry, ignore_errors=True)


def _replace(made: Path, target: Path) -> None:
    """Put a folder in the place of another: a rename cannot do it at once, so the old one steps aside first."""
    aside = made.with_name(made.name + _REPLACED)
    if target.exists():
        os.replace(target, aside)
    os.replace(made, target)
    shutil.rmtree(aside, ignore_errors=True)
    if os.name == "posix":  # the renaming itself has to reach the disk
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
