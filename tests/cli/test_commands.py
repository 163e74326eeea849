"""The command: fast help, one clear line for an error, and the commands that need no model."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from snell import __version__
from snell.cli.main import COMMANDS, app
from snell.config import process_environment

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SNELL_DATA_DIR", str(tmp_path / "data"))


def test_help_lists_every_command() -> None:
    result = RUNNER.invoke(app, ["--help"])
    assert result.exit_code == 0
    assert [name for name in COMMANDS if f" {name} " not in result.output] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_begins_what_its_own_help_says(name: str) -> None:
    said = " ".join(RUNNER.invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output.split())
    assert COMMANDS[name].removesuffix(".") in said


def test_help_imports_no_module_of_snell_beyond_the_package_itself() -> None:
    source = (
        "import sys\n"
        "import snell\n"
        "before = set(sys.modules)\n"
        "from typer.testing import CliRunner\n"
        "from snell.cli.main import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "new = {name for name in set(sys.modules) - before if name.startswith('snell.')}\n"
        "assert new <= {'snell.cli', 'snell.cli.main', 'snell.deferred', 'snell.errors'}, new\n"
    )
    environment = process_environment() | {"PYTHONPATH": ":".join(filter(None, sys.path))}
    child = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr


def test_version_is_the_package_s() -> None:
    assert RUNNER.invoke(app, ["--version"]).output.strip() == __version__


def test_debug_shows_where_an_error_came_from() -> None:
    result = RUNNER.invoke(app, ["--debug", "serve", "no-such-model"])
    assert type(result.exception).__name__ == "ModelNotFoundError"


def test_an_unknown_command_is_a_usage_error() -> None:
    assert RUNNER.invoke(app, ["bogus"]).exit_code == 2


def test_info_names_the_version_and_the_folders(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["info"])
    assert result.exit_code == 0
    assert __version__ in result.output
    assert "threads" in result.output


def test_models_list_names_every_model_of_the_catalogue() -> None:
    result = RUNNER.invoke(app, ["models", "list"])
    assert result.exit_code == 0
    assert "smollm2" in result.output


def test_models_alone_lists_and_shows_files_that_were_put_into_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "models"
    folder.mkdir(parents=True)
    (folder / "mine.gguf").write_bytes(bytes(2_000_000))
    lines = RUNNER.invoke(app, ["models"]).output.splitlines()
    assert any("smollm2" in line and line.rstrip().endswith("no") for line in lines)
    assert any(line.split() == ["mine.gguf", "2", "yes"] for line in lines)
    assert lines[-1] == str(folder / "mine.gguf")


def test_an_unknown_model_is_one_line_that_lists_the_known_ones() -> None:
    result = RUNNER.invoke(app, ["models", "install", "bogus"])
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert "smollm2" in line


def test_offline_refuses_to_fetch_a_model() -> None:
    result = RUNNER.invoke(app, ["models", "install", "smollm2", "--offline"])
    assert result.exit_code == 1
    assert "OfflineError" in result.stderr


def test_removing_a_model_that_is_not_installed_says_so() -> None:
    result = RUNNER.invoke(app, ["models", "remove", "smollm2"])
    assert result.exit_code == 0
    assert "was not installed" in result.stderr


def test_bench_lists_the_names_of_a_suite() -> None:
    result = RUNNER.invoke(app, ["bench", "attention", "--list"])
    assert result.output.split() == [
        f"attention/{kind}/{size}" for kind in ("full", "causal") for size in (128, 512, 2048, 8192)
    ]


def test_bench_refuses_an_unknown_suite() -> None:
    result = RUNNER.invoke(app, ["bench", "bogus", "--list"])
    assert result.exit_code == 1
    assert "matmul" in result.stderr
