"""The cache folder as a whole: count it, delete it, write it to a tar file, add one.

Entries are named by their content, so a file with the name of one that exists is the same file and is skipped. Writes
go through a temporary name and a rename, so that another process never sees half of an entry.
"""

import contextlib
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from snell.errors import CacheError, FileFormatError
from snell.runtime.packed import MODELS

__all__ = ["clear", "contents", "export", "import_"]

PARTIAL = ".partial"


def contents(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Each part of the cache (a folder below it), its number of files and their bytes."""
    parts: dict[str, list[int]] = {}
    for file in _files(folder):
        with contextlib.suppress(FileNotFoundError):  # another process may have evicted it
            parts.setdefault(file.relative_to(folder).parts[0], []).append(file.stat().st_size)
    for part, sizes in sorted(parts.items()):
        yield part, len(sizes), sum(sizes)


def clear(folder: Path) -> int:
    """Delete what the cache folder holds; the number of files that were deleted."""
    count = sum(1 for _ in _files(folder))
    if folder.exists() and not folder.is_dir():
        raise CacheError(f"{folder}: expected a folder, found a file; set SNELL_CACHE_DIR to a folder")
    for entry in folder.iterdir() if folder.exists() else ():
        try:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink(missing_ok=True)
        except OSError as error:
            raise CacheError(f"{entry}: expected to be able to delete it: {error}; check its permissions") from error
    return count


def export(folder: Path, archive: Path) -> int:
    """Write every file to a new archive; how many.

    What was made of models' files stays here: it is found again by the places of those files on this machine.
    """
    partial = archive.with_name(archive.name + PARTIAL)
    count = 0
    try:
        with tarfile.open(partial, "w") as tar:
            for file in _files(folder):
                if file.relative_to(folder).parts[0] == MODELS:
                    continue
                with contextlib.suppress(FileNotFoundError):  # another process may have evicted it
                    tar.add(file, file.relative_to(folder).as_posix(), recursive=False)
                    count += 1
        partial.replace(archive)
    except OSError as error:
        raise CacheError(f"{archive}: expected to be able to write it: {error}; check the folder and space") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def import_(folder: Path, archive: Path) -> int:
    """Add the archive's files that the cache does not have; the number of files that were added."""
    try:
        with tarfile.open(archive, "r:") as tar:
            return sum(_add(folder, tar, member) for member in tar)
    except FileNotFoundError as error:
        raise FileFormatError(f"{archive}: no such file; expected one that `snell cache export` wrote") from error
    except tarfile.TarError as error:
        raise FileFormatError(f"{archive}: {error}; expected a file that `snell cache export` wrote") from error


def _add(folder: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bool:
    name = PurePosixPath(member.name)
    # An archive from elsewhere must not write outside of the cache.
    if not member.isfile() or name.is_absolute() or ".." in name.parts or "\\" in member.name:
        raise FileFormatError(
            f"{member.name!r}: expected a plain file below the cache folder; nothing after it was read"
        )
    target = folder.joinpath(*name.parts)
    if target.exists():
        return False
    content = tar.extractfile(member)
    assert content is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + PARTIAL)
    try:
        with partial.open("wb") as output:
            shutil.copyfileobj(content, output)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return True


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(file for file in folder.rglob("*") if file.is_file() and not _is_half_written(file))


def _is_half_written(file: Path) -> bool:
    """The cache's own temporary files begin with a dot."""
    return file.name.endswith(PARTIAL) or file.name.startswith(".")
