"""The on-disk cache of compiled objects and records: content-addressed files that any number of processes may share.

An entry's file name is the SHA-256 of its key text, which holds all that its bytes depend on.  Writers put a finished
temporary file in place by one rename, so a reader sees a whole entry or none; every entry carries a checksum, and a cut
or damaged one is dropped and made again.  A folder that cannot be used costs a warning, never a result; only the
explicit commands (`info`, `clear`, `export`, `load`) raise CacheError.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snell.deferred import deferred
from snell.errors import CacheError
from snell.targets import Target

if TYPE_CHECKING:
    import zipfile

    from snell.codegen import llvm
else:
    llvm = deferred("snell.codegen.llvm")
    zipfile = deferred("zipfile")

__all__ = ["Cache", "CacheInfo", "Compiler", "compile_cached", "object_key"]

Compiler = Callable[[str, Target], bytes]
"""From a module's text to its machine code."""

_MAGIC: Final = b"snell cache 1\n"
_HEAD_BYTES: Final = len(_MAGIC) + 32
_NAME: Final = re.compile(r"[0-9a-f]{64}")
_TEMPORARY: Final = ".writing-"
# A temporary file of this age belongs to a writer that died.
_ABANDONED_SECONDS: Final = 3600.0
# Reading marks an entry as used; more often than this the mark would cost more than it tells.
_MARK_SECONDS: Final = 60.0
# Eviction goes below the limit, so that it does not run on every write.
_KEPT_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What a cache holds."""

    folder: Path
    entries: int
    size_bytes: int
    limit_bytes: int


class Cache:
    """Entries under one folder, at most `limit_bytes` of them; those unused for longest go first.

    One that `warns` says once that its folder cannot be used: of several below one folder, one is enough.
    """

    def __init__(self, folder: Path, limit_bytes: int, *, warns: bool = True) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._size: int | None = None
        self._has_warned = not warns

    def get(self, key: str) -> bytes | None:
        """The entry's bytes, or None; a damaged entry is removed."""
        path = self.path(key)
        try:
            # In two reads: a model's constants are megabytes, and a slice would copy them.
            with path.open("rb") as file:
                head, payload = file.read(_HEAD_BYTES), file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("read", error)
            return None
        if not _is_whole(head, payload):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        self._mark(path)
        return payload

    def mark(self, key: str) -> None:
        """The key's file has been used: others go first."""
        self._mark(self.path(key))

    def put(self, key: str, payload: bytes) -> None:
        """Store the bytes; failure to do so is a warning."""
        try:
            self.write(key, (_entry(payload),))
        except OSError as error:
            self._warn("write", error)

    def write(self, key: str, parts: Iterable[bytes | memoryview]) -> None:
        """Store a file that is no entry, whose reader checks it himself; OSError where that fails."""
        self._make_room(self._write(self.path(key), parts))

    def get_or_make(self, key: str, make: Callable[[], bytes]) -> bytes:
        """The entry, made and stored where it is missing; two processes may both make it, either result stands."""
        payload = self.get(key)
        if payload is None:
            payload = make()
            self.put(key, payload)
        return payload

    def drop(self, key: str) -> None:
        """Remove an entry where there is one."""
        with contextlib.suppress(OSError):
            self.path(key).unlink()

    def info(self) -> CacheInfo:
        """Count the entries and their bytes."""
        with _reported("read", self.folder):
            sizes = [status.st_size for _, status in self._states()]
        return CacheInfo(self.folder, len(sizes), sum(sizes), self.limit_bytes)

    def clear(self) -> int:
        """Remove every entry; how many there were."""
        count = 0
        with _reported("clear", self.folder):
            for path in [*self._entries(), *self._temporaries()]:
                path.unlink(missing_ok=True)
                count += _NAME.fullmatch(path.name) is not None
        self._size = None
        return count

    def export(self, target: Path) -> int:
        """Write every entry into one file; how many."""
        with _reported("export", target):
            count = 0
            with zipfile.ZipFile(target, "w") as archive:
                for path in self._entries():
                    data = _content(path)
                    if _payload(data) is not None:
                        archive.writestr(path.name, data)
                        count += 1
        return count

    def load(self, source: Path) -> int:
        """Take over the entries of an exported file; CacheError before anything is written if one is damaged."""
        with _reported("import", source):
            try:
                with zipfile.ZipFile(source) as archive:
                    entries = {name: archive.read(name) for name in archive.namelist()}
            except zipfile.BadZipFile as error:
                raise CacheError(f"{source}: expected a file that `snell cache export` wrote; {error}") from error
            for name, data in entries.items():
                if not _NAME.fullmatch(name) or _payload(data) is None:
                    raise CacheError(f"{source}: entry {name!r} is damaged; export the cache again")
            for name, data in entries.items():
                self._write(self.folder / name[:2] / name, (data,))
            self._make_room(sum(map(len, entries.values())))
        return len(entries)

    def path(self, key: str) -> Path:
        """Where the key's file lies, if there is one."""
        name = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / name[:2] / name

    def _write(self, path: Path, parts: Iterable[bytes | memoryview]) -> int:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                size = sum([file.write(part) for part in parts])
            os.replace(name, path)
            return size
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def _mark(self, path: Path) -> None:
        # A read-only cache stays usable: without the mark the order of eviction is only less exact.
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _MARK_SECONDS:
                os.utime(path)

    def _make_room(self, added: int) -> None:
        """Evict when the size known to this process exceeds the limit; others' writes are seen at the next count."""
        if self._size is not None:
            self._size += added
        if self._size is None or self._size > self.limit_bytes:
            self._size = self._evict()

    def _evict(self) -> int:
        now = time.time()
        for path in self._temporaries():
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()
        found = [(max(s.st_mtime, s.st_atime), s.st_size, path) for path, s in self._states()]
        total = sum(size for _, size, _ in found)
        if total <= self.limit_bytes:
            return total
        for _, size, path in sorted(found, key=lambda item: (item[0], str(item[2]))):
            if total <= self.limit_bytes * _KEPT_SHARE:
                break
            path.unlink(missing_ok=True)
            total -= size
        return total

    def _entries(self) -> Iterator[Path]:
        yield from (path for path in sorted(self.folder.glob("??/*")) if _NAME.fullmatch(path.name))

    def _states(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The entries that are still there when they are looked at: another process may evict or clear them."""
        for path in self._entries():
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()

    def _temporaries(self) -> Iterator[Path]:
        yield from self.folder.glob(f"??/{_TEMPORARY}*")

    def _warn(self, verb: str, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            text = f"cannot {verb} the cache {self.folder} ({error}); going on without it"
            warnings.warn(f"{text}; set SNELL_CACHE_DIR to a writable folder", RuntimeWarning, stacklevel=4)


def object_key(llvm_ir: str, target: Target) -> str:
    """All that machine code depends on: the text, the processor's description and LLVM's version."""
    return "\n".join(("code", llvm.LLVM_VERSION, str(llvm.CODEGEN_LEVEL), repr(target), llvm_ir))


def compile_cached(cache: Cache, llvm_ir: str, target: Target) -> bytes:
    """`compile_object` through the cache."""
    return cache.get_or_make(object_key(llvm_ir, target), lambda: llvm.compile_object(llvm_ir, target))


def _entry(payload: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def _content(path: Path) -> bytes:
    """A file's bytes; none where it was removed after it was listed."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _payload(data: bytes) -> bytes | None:
    """The payload of an entry, None when it is cut or damaged."""
    payload = data[_HEAD_BYTES:]
    return payload if _is_whole(data[:_HEAD_BYTES], payload) else None


def _is_whole(head: bytes, payload: bytes) -> bool:
    return head == _MAGIC + hashlib.sha256(payload).digest()


@contextlib.contextmanager
def _reported(verb: str, path: Path) -> Generator[None]:
    try:
        yield
    except CacheError:
        raise
    except OSError as error:
        raise CacheError(f"cannot {verb} {path}: {error.strerror or error}; check its permissions and space") from error
