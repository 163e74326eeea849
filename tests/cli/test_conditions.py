"""The command where things go wrong: one message and a failure code, one line for Ctrl-C, a bar only on a terminal."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from rich.console import Console
from tests.llm.tiny_models import tiny_llama, write_gguf_llama
from typer.testing import CliRunner

from snell.cli import cache_archive
from snell.cli.compiling import compile_bar
from snell.cli.main import app
from snell.config import process_environment
from snell.errors import CacheError

RUNNER = CliRunner()
posix = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_llama(num_hidden_layers=1))


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SNELL_DATA_DIR", str(tmp_path / "data"))


def message_of(*arguments: str, code: int = 1) -> str:
    result = RUNNER.invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr.strip()


def write_text(path: Path) -> None:
    path.write_text("once upon a time")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (write_text, "this is no GGUF file"),
        (Path.touch, "empty file"),
        (Path.mkdir, "without config.json"),
        (lambda path: None, "no such file or folder, and the short names are smollm2"),
    ],
    ids=["text", "empty", "folder", "missing"],
)
def test_what_is_no_model_is_one_line(tmp_path: Path, make, said: str) -> None:
    make(tmp_path / "model.gguf")
    line = message_of("run", str(tmp_path / "model.gguf"), "hi")
    assert line.startswith("error: ")
    assert "\n" not in line
    assert said in line


def test_an_unknown_architecture_is_one_line_that_lists_the_known_ones(tmp_path: Path, tiny: Path) -> None:
    other = tmp_path / "mamba.gguf"
    other.write_bytes(tiny.read_bytes().replace(b"llama", b"mamba"))
    line = message_of("run", str(other), "hi")
    assert "'mamba'; supported are llama" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--max-tokens", "0"], 2, "--max-tokens"),
        (["--max-tokens", "-3"], 2, "--max-tokens"),
        (["--temperature", "-1"], 2, "--temperature"),
        (["--top-p", "0", "--max-tokens", "4"], 1, "top_p: expected a number above 0 and at most 1, received 0.0"),
        (["--top-p", "1.5"], 2, "--top-p"),
        (["--max-tokens", "100"], 1, "max_tokens=100 do not fit the context of 64 tokens"),
        (["--context", "65"], 1, "texts of 1 to 64 tokens, received 65"),
    ],
)
def test_an_option_that_means_nothing_is_refused_before_anything_is_compiled(
    tmp_path: Path, tiny: Path, options: list[str], code: int, said: str
) -> None:
    assert said in message_of("run", str(tiny), "hi", *options, code=code)
    assert not (tmp_path / "cache" / "objects").exists()


def test_an_empty_text_to_continue_is_refused(tiny: Path) -> None:
    assert "the prompt has no tokens" in message_of("run", str(tiny), "", "--raw", "--max-tokens", "1")


@pytest.mark.parametrize("arguments", [["{tiny}", "\udcff\udcfe", "--max-tokens", "1"], ["\udcff", "hi"]])
def test_arguments_that_are_no_utf_8_are_one_line(tiny: Path, arguments: list[str]) -> None:
    line = message_of("run", *(argument.format(tiny=tiny) for argument in arguments))
    assert line.startswith("error: ")
    assert "\n" not in line


def test_a_cache_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert "set SNELL_CACHE_DIR to a folder" in message_of("cache", "clear")


def test_an_archive_that_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    line = message_of("cache", "export", str(tmp_path / "none" / "cache.tar"))
    assert "CacheError" in line
    assert "\n" not in line


def test_an_export_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = tmp_path / "cache" / "objects" / "ab"
    entry.parent.mkdir(parents=True)
    entry.write_text("code")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "add", full)
    with pytest.raises(CacheError, match="No space left"):
        cache_archive.export(tmp_path / "cache", tmp_path / "cache.tar")
    assert list(tmp_path.glob("cache.tar*")) == []


def test_half_written_entries_are_neither_counted_nor_exported(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "objects" / "ab"
    folder.mkdir(parents=True)
    (folder / ".writing-x").write_text("half")
    assert list(cache_archive.contents(tmp_path / "cache")) == []
    assert cache_archive.export(tmp_path / "cache", tmp_path / "cache.tar") == 0


def test_a_cache_that_cannot_be_used_is_one_line_before_the_answer(tmp_path: Path, tiny: Path) -> None:
    (tmp_path / "file").write_text("a file")
    blocked = {"SNELL_CACHE_DIR": str(tmp_path / "file")}
    child = start(["run", str(tiny), "hi", "--max-tokens", "4", "--raw"], blocked)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, out.count("\n")) == (0, 1)
    assert [line.startswith("warning: cannot read the cache") for line in err.strip().splitlines()] == [True]
    assert "set SNELL_CACHE_DIR to a writable folder" in err


COMMAND = "from snell.cli.main import app; app()"
STOPPED_IN_THE_COMPILER = """
import sys, time
import snell.runtime.kernels as objects
inner, calls = objects.compile_object, []
def compile_object(*arguments):
    calls.append(1)
    if len(calls) == 2:
        print("compiling", flush=True)
        time.sleep(60)
    return inner(*arguments)
objects.compile_object = compile_object
"""
STOPPED_IN_THE_TEXT = """
import time
import snell.cli.run as run
def write_chunks(chunks):
    for number, chunk in enumerate(chunks):
        if number == 1:
            print("generating", flush=True)
            time.sleep(60)
run.write_chunks = write_chunks
"""


def start(
    arguments: list[str], environment: dict[str, str], source: str = "", stderr: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "SNELL_THREADS": "1", "COLUMNS": "200"}
    return subprocess.Popen(
        [sys.executable, "-c", source + COMMAND, *arguments],
        env=process_environment() | path | environment,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


@posix
@pytest.mark.parametrize(
    ("source", "word"), [(STOPPED_IN_THE_COMPILER, "compiling\n"), (STOPPED_IN_THE_TEXT, "generating\n")]
)
def test_ctrl_c_is_one_line_and_130_and_the_next_run_works(tiny: Path, tmp_path: Path, source: str, word: str) -> None:
    arguments = ["run", str(tiny), "hi", "--raw", "--max-tokens", "4"]
    child = start(arguments, {}, source)
    assert child.stdout is not None
    assert child.stdout.readline() == word, child.communicate()[1]
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err.strip()) == (130, "interrupted")
    assert [path for path in (tmp_path / "cache").rglob(".*") if path.is_file()] == []
    again = start(arguments, {})
    out, err = again.communicate(timeout=120)
    assert (again.returncode, err.strip()) == (0, "")
    assert out.strip()


@posix
def test_a_first_run_shows_its_progress_on_a_terminal_only(tiny: Path) -> None:
    terminal, end = os.openpty()
    child = start(["run", str(tiny), "hi", "--raw", "--max-tokens", "1"], {"TERM": "xterm"}, stderr=end)
    os.close(end)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # the child has closed its end
            break
    os.close(terminal)
    child.communicate(timeout=120)
    assert child.returncode == 0
    assert b"compiling for this machine" in shown


def test_the_bar_counts_kernels_and_goes_with_the_block() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    with compile_bar(screen) as progress:
        assert progress is not None
        for report in [(0, 0), (0, 3), (1, 3), (0, 0), (0, 5), (5, 5)]:
            progress(*report)
    shown = screen.file.getvalue()
    assert "5/5" in shown
    assert shown.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


def test_without_a_terminal_there_is_nobody_to_tell() -> None:
    screen = Console(file=io.StringIO(), force_terminal=False)
    with compile_bar(screen) as progress:
        assert progress is None
    assert screen.file.getvalue() == ""
