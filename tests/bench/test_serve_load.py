"""The load of the serve suite: what it counts, on a small server and on times made up."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.llm.running_server import serving
from tests.llm.tiny_models import VOCABULARY, tiny_llama, write_gguf_llama

from snell.bench import parse_case
from snell.bench.cases import Serve, ServeFigure
from snell.bench.serve_load import Client, TokenTimes, kept_share, total_rate, under_load
from snell.config import Config, process_environment
from snell.engine.engine import Engine
from snell.errors import SnellError
from snell.llm import load
from snell.llm.engine_compiler import EngineCompiler
from snell.llm.server import Service, Settings
from snell.llm.serving import Limits
from snell.rewrite.policy import Policy


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("serve")
    path = write_gguf_llama(folder / "tiny.gguf", tiny_llama(num_hidden_layers=1, max_position_embeddings=1280))
    config = replace(Config.from_environment(process_environment()), cache_dir=folder / "cache")
    model = load(path, compiler=EngineCompiler(Engine(config), Policy.DEFAULT))
    with serving(Service(model, Settings("tiny"), Limits(places=4))) as running:
        yield Client(running.host, running.port, "tiny", model.tokenizer.eos_ids, VOCABULARY)


def test_every_token_of_a_stream_has_its_time(client: Client) -> None:
    times = client.stream(0, 16, 12)
    assert len(times.came) == 12
    assert times.first > 0
    assert len(times.between) == 11
    assert all(seconds >= 0 for seconds in times.between)


def test_the_load_is_short_requests_of_four_clients_and_a_long_one(client: Client) -> None:
    texts = under_load(client)
    assert len(texts) == 4 * 6 + 1
    assert {len(text.came) for text in texts} == {24}


def test_the_rate_of_one_stream_is_its_tokens_over_their_seconds(client: Client) -> None:
    assert 1 < total_rate(client, 1) < 1e6


def test_the_kept_share_is_the_rate_beside_a_long_prompt_over_the_rate_before_it() -> None:
    streams = [TokenTimes(0.0, (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 11.0, 12.0)) for _ in range(3)]
    assert kept_share(streams, TokenTimes(4.0, (10.0,))) == 0.5
    with pytest.raises(SnellError, match="did not run at the same time"):
        kept_share(streams, TokenTimes(20.0, (21.0,)))


def test_what_the_server_refuses_is_an_error_that_says_so(client: Client) -> None:
    with pytest.raises(SnellError, match="the server answered 400"):
        client.stream(0, 2000, 1)


@pytest.mark.parametrize(
    ("figure", "reading", "reported", "unit"),
    [(ServeFigure.NEXT_P99, 0.02, 20.0, "ms"), (ServeFigure.KEPT_RATE, 0.6, 60.0, "%"),
     (ServeFigure.RATE_4, 300.0, 300.0, "tokens/s")],
)  # fmt: skip
def test_a_figure_has_its_unit(figure: ServeFigure, reading: float, reported: float, unit: str) -> None:
    case = Serve("smollm2", figure)
    assert (case.report(reading), case.unit) == (reported, unit)
    assert parse_case(case.name) == case


def test_times_of_a_text_are_from_its_request_and_from_token_to_token() -> None:
    times = TokenTimes(1.0, (3.0, 3.5, 4.5))
    assert (times.first, times.between) == (2.0, [0.5, 1.0])
