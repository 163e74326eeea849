"""`snell serve` as a process of its own: where it listens, the key it asks for, and how it ends."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gguf
import openai
import pytest
from tests.llm.tiny_models import tiny_llama, write_gguf_llama
from typer.testing import CliRunner

from snell.cli.main import app
from snell.config import process_environment

KEY = "a-key"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    judge = tiny_llama(max_position_embeddings=1024)
    return write_gguf_llama(tmp_path_factory.mktemp("serve") / "tiny.gguf", judge, gguf.GGMLQuantizationType.Q8_0)


@pytest.fixture
def server(model: Path) -> Iterator[subprocess.Popen[str]]:
    key = model.parent / "key"
    key.write_text(KEY + "\n")
    environment = process_environment() | {
        "PYTHONPATH": ":".join(filter(None, sys.path)),
        "SNELL_CACHE_DIR": str(model.parent / "cache"),
    }
    command = [sys.executable, "-m", "snell", "serve", str(model), "--port", "0", "--api-key-file", str(key)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def client_of(server: subprocess.Popen[str], key: str = KEY) -> openai.OpenAI:
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"serving tiny\.gguf at (http://127\.0\.0\.1:\d+/v1)", line):
            return openai.OpenAI(base_url=found[1], api_key=key, max_retries=0, timeout=60)
    raise AssertionError("the server ended before it listened")


def test_a_server_that_is_terminated_finishes_its_streams_and_ends(server: subprocess.Popen[str]) -> None:
    client = client_of(server)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="another").models.list()
    stream = client.completions.create(
        model="tiny.gguf", prompt="x", max_tokens=900, stream=True, temperature=0, logit_bias={"257": -100}
    )
    pieces = iter(stream)
    next(pieces)
    server.send_signal(signal.SIGTERM)
    assert list(pieces)[-1].choices[0].finish_reason == "length"
    server.wait(30)
    with pytest.raises(openai.APIConnectionError):
        client.models.list()


def test_an_empty_key_file_is_an_error(model: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    result = CliRunner().invoke(app, ["serve", str(model), "--api-key-file", str(tmp_path / "key")])
    assert result.exit_code == 1
    assert "expected a key" in result.stderr
