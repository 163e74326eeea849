"""The cache folder can be counted, deleted, written to one file and read from it, safely."""

import io
import tarfile
from pathlib import Path

import pytest

from snell.cli import cache_archive
from snell.errors import FileFormatError


def filled(folder: Path) -> Path:
    for name, text in {"objects/ab": "code", "objects/cd": "more", "records/ef": "time"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def archive_of(path: Path, members: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(content), "/etc/hostname"
            tar.addfile(member, io.BytesIO(content))
    return path


def test_contents_counts_files_and_bytes_by_part(tmp_path: Path) -> None:
    assert list(cache_archive.contents(filled(tmp_path))) == [("objects", 2, 8), ("records", 1, 4)]


def test_a_cache_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert list(cache_archive.contents(tmp_path / "none")) == []
    assert cache_archive.clear(tmp_path / "none") == 0


def test_clear_leaves_an_empty_folder(tmp_path: Path) -> None:
    assert cache_archive.clear(filled(tmp_path)) == 3
    assert list(tmp_path.iterdir()) == []


def test_an_exported_cache_is_imported_unchanged(tmp_path: Path) -> None:
    source, target, archive = filled(tmp_path / "a"), tmp_path / "b", tmp_path / "cache.tar"
    assert cache_archive.export(source, archive) == 3
    assert cache_archive.import_(target, archive) == 3
    assert (target / "objects/ab").read_text() == "code"


def test_import_keeps_what_the_cache_already_has(tmp_path: Path) -> None:
    source, target, archive = filled(tmp_path / "a"), tmp_path / "b", tmp_path / "cache.tar"
    cache_archive.export(source, archive)
    (target / "objects").mkdir(parents=True)
    (target / "objects/ab").write_text("mine")
    assert cache_archive.import_(target, archive) == 2
    assert (target / "objects/ab").read_text() == "mine"


@pytest.mark.parametrize("name", ["../outside", "/absolute", "objects/../../outside"])
def test_an_archive_cannot_write_outside_of_the_cache(tmp_path: Path, name: str) -> None:
    archive = archive_of(tmp_path / "evil.tar", {name: b"x"})
    with pytest.raises(FileFormatError, match="below the cache folder"):
        cache_archive.import_(tmp_path / "cache", archive)
    assert not (tmp_path / "outside").exists()


def test_an_archive_cannot_plant_a_link(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "evil.tar", {"objects/ab": b""}, kind=tarfile.SYMTYPE)
    with pytest.raises(FileFormatError, match="plain file"):
        cache_archive.import_(tmp_path / "cache", archive)


def test_a_file_that_is_no_archive_is_a_format_error(tmp_path: Path) -> None:
    (tmp_path / "text.tar").write_text("not an archive")
    with pytest.raises(FileFormatError, match="snell cache export"):
        cache_archive.import_(tmp_path / "cache", tmp_path / "text.tar")
