"""snell's server in a process of its own, as ``snell serve`` starts it, under a load from this one."""

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import snell as sn
from snell.bench.models import model_path
from snell.bench.peers.peer import Gauge
from snell.bench.serve_case import Serve, ServeFigure
from snell.bench.serve_load import Client, kept_rate, total_rate, under_load
from snell.config import process_environment
from snell.errors import SnellError

__all__ = ["language_server"]

_START_SECONDS, _END_SECONDS = 240.0, 60.0
_ADDRESS = re.compile(r"serving \S+ at http://([\d.]+):(\d+)/v1")


def language_server(case: Serve, threads: int) -> Gauge:
    """A server is started for each reading, and one before them, so that none of them compiles."""
    path = model_path(case.model)
    with _serving(path, threads, case.model) as client:
        client.stream(0, 16, 2)
    return Gauge(lambda: _reading(case, path, threads))


def _reading(case: Serve, path: Path, threads: int) -> float:
    with _serving(path, threads, case.model) as client:
        client.stream(0, 64, 8)
        match case.figure:
            case ServeFigure.KEPT_RATE:
                return kept_rate(client)
            case ServeFigure.RATE_1:
                return total_rate(client, 1)
            case ServeFigure.RATE_4:
                return total_rate(client, 4)
            case _:
                return _time(case.figure, client)


def _time(figure: ServeFigure, client: Client) -> float:
    texts = under_load(client)
    if figure in {ServeFigure.FIRST_P50, ServeFigure.FIRST_P99}:
        values = [text.first for text in texts]
    else:
        values = [gap for text in texts for gap in text.between]
    return float(np.percentile(values, 50 if figure in {ServeFigure.FIRST_P50, ServeFigure.NEXT_P50} else 99))


@contextmanager
def _serving(path: Path, threads: int, name: str) -> Iterator[Client]:
    """A client of a server that runs as long as the block."""
    model = sn.llm.load(path)
    command = [sys.executable, "-m", "snell", "serve", str(path), "--port", "0", "--name", name]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [*command, "--threads", str(threads)], stdout=said, stderr=said, env=process_environment()
        )
        try:
            host, port = _address(process, said)
            yield Client(host, port, name, model.tokenizer.eos_ids, model.tokenizer.vocab_size)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: subprocess.Popen[bytes], said: tempfile._TemporaryFileWrapper) -> tuple[str, int]:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        said.seek(0)
        text = said.read()
        if found := _ADDRESS.search(text):
            return found[1], int(found[2])
        if process.poll() is not None:
            raise SnellError(f"snell serve ended: {text[-500:].strip()}")
        time.sleep(0.05)
    raise SnellError(f"snell serve did not begin within {_START_SECONDS:.0f} s")
