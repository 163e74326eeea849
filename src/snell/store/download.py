"""Fetching packages with the user's own package client: ``pip download --no-deps`` in a child process.

Takes pinned requirements and an empty folder; leaves one wheel for each in it. Wheels only, so no code of a package
runs; pip's own configuration decides where they come from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from snell.deferred import deferred
from snell.errors import OfflineError

if TYPE_CHECKING:
    import subprocess
else:
    subprocess = deferred("subprocess")

__all__ = ["Fetch", "fetch_with_pip"]

# (requirements, destination, called with the bytes that have arrived so far)
Fetch = Callable[[Sequence[str], Path, Callable[[int], None]], None]

# pip tells another program how far it is only since version 24.1, and environments come with older ones. What has
# arrived can be measured for every version: pip keeps its partial files in Python's folder for temporary files.
_PIP_WITH_ITS_TEMPORARY_FILES_IN = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); runpy.run_module('pip', run_name='__main__')"
)
_POLL_SECONDS = 0.2
_LINES_OF_AN_ERROR = 5


def fetch_with_pip(packages: Sequence[str], destination: Path, arrived: Callable[[int], None]) -> None:
    """Download the wheels of ``packages``; pip's failure is an ``OfflineError`` that quotes its last lines."""
    partial, log = destination / "partial", destination / "pip.log"
    partial.mkdir()
    command = [
        sys.executable, "-c", _PIP_WITH_ITS_TEMPORARY_FILES_IN, str(partial), "download", "--no-deps",
        "--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input",
        "--progress-bar", "off", "--dest", str(destination), *packages,
    ]  # fmt: skip
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            while _runs(process):
                arrived(_bytes_below(partial))
        except BaseException:
            process.kill()  # the caller gives up (Ctrl-C, or its callback raised): so does pip
            raise
    if process.returncode != 0:
        said = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES_OF_AN_ERROR:]
        raise OfflineError(
            f"pip could not download {', '.join(packages)} (exit code {process.returncode}); check the network and "
            f"that {sys.executable} has pip, or give the path of a model file instead. pip said:\n" + "\n".join(said)
        )


def _runs(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process still runs after one more poll's time."""
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # pip has just renamed or deleted it
    return total
