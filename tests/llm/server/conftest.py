"""A small model and a server of it, shared by the tests of a file."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gguf
import openai
import pytest
from tests.llm.running_server import KEY, serving
from tests.llm.tiny_models import tiny_llama, write_gguf_llama

from snell.config import Config, process_environment
from snell.engine.engine import Engine
from snell.llm import LanguageModel, load
from snell.llm.engine_compiler import EngineCompiler
from snell.llm.server import Listener, Service, Settings
from snell.llm.serving import Limits
from snell.rewrite.policy import Policy


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def compiler(folder: Path) -> EngineCompiler:
    config = replace(Config.from_environment(process_environment()), cache_dir=folder / "cache")
    return EngineCompiler(Engine(config), Policy.DEFAULT)


@pytest.fixture(scope="session")
def model(folder: Path, compiler: EngineCompiler) -> LanguageModel:
    judge = tiny_llama(max_position_embeddings=1024)
    path = write_gguf_llama(folder / "tiny.gguf", judge, gguf.GGMLQuantizationType.Q8_0)
    opened = load(path, compiler=compiler)
    assert isinstance(opened, LanguageModel)
    return opened


@pytest.fixture(scope="module")
def service(model: LanguageModel) -> Service:
    return Service(model, Settings("tiny", KEY, body_bytes=100_000, send_seconds=2.0), Limits(places=3, waiting=40))


@pytest.fixture(scope="module")
def listener(service: Service) -> Iterator[Listener]:
    with serving(service) as running:
        yield running


@pytest.fixture(scope="module")
def client(listener: Listener) -> openai.OpenAI:
    return openai.OpenAI(base_url=listener.url, api_key=KEY, max_retries=0, timeout=60)
