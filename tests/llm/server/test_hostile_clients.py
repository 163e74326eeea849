"""Clients that want to do harm: what they send is refused in the form of the interface, and costs the others nothing."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from tests.llm.running_server import KEY, asked, exchanged, posted, serving

from snell.llm import LanguageModel
from snell.llm.server import Listener, Service, Settings
from snell.llm.server.idle_connections import IdleConnections
from snell.llm.serving import Limits

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def deep(levels: int) -> bytes:
    return b'{"prompt": "x", "metadata": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b'"text"',
        b'{"prompt": "x"',
        b'{"prompt": "x", "temperature": NaN}',
        b'{"prompt": "x", "temperature": -Infinity}',
        b'{"prompt": "x", "temperature": 1e999}',
        b'{"prompt": "x", "top_k": ' + b"9" * 5000 + b"}",
        b'{"prompt": "x", "\\ud800": 1}',
        b'{"prompt": "\\ud83d"}',
        b'{"prompt": "x", "' + b"k" * 50_000 + b'": 1}',
        b'{"prompt": {"a": 1}}',
        b'{"prompt": [[1, 2], "x"]}',
        b'{"prompt": [-1]}',
        b'{"prompt": [1e3]}',
        b'{"prompt": [99999999999999999999]}',
        b'{"prompt": ["' + b'","' * 10_000 + b'"]}',
        b'{"prompt": ["x", "y"], "n": 128}',
        b'{"prompt": "x", "max_tokens": 1e9}',
        b'{"prompt": "x", "max_tokens": 2147483648}',
        b'{"prompt": "x", "n": 99999999999}',
        b'{"prompt": "x", "stop": {"a": 1}}',
        b'{"prompt": "x", "stop": ["a", 1]}',
        b'{"prompt": "x", "logit_bias": [1]}',
        b'{"prompt": "x", "logit_bias": {"1": "a"}}',
        b'{"prompt": "x", "logit_bias": {"-1": 1}}',
        b'{"prompt": "x", "logit_bias": {"\\u0661": 1}}',
        b'{"prompt": "x", "logit_bias": {"1": 1e999}}',
        b'{"prompt": "x", "grammar": "start: \\"a\\"{100000000}"}',
        b'{"prompt": "x", "grammar": 3}',
        b'{"prompt": "x", "stream_options": {"include_usage": true}}',
        b'{"prompt": "x", "stream": 1}',
        deep(101),
        deep(5000),
        b"[" * 99_000,
        b"\xef\xbb\xbf{}",
        b"\xff\xfe\x00\x00",
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_a_body_that_means_nothing_is_a_400(listener: Listener, body: bytes) -> None:
    status, answer = exchanged(listener, posted(body))
    assert status == 400
    assert set(json.loads(answer)["error"]) == {"message", "type", "param", "code"}
    assert len(answer) < 5000


def test_a_model_s_name_that_is_no_unicode_is_a_404(listener: Listener) -> None:
    status, answer = exchanged(listener, posted(b'{"prompt": "x", "model": "\\udfff"}'))
    assert status == 404
    assert json.loads(answer)["error"]["code"] == "model_not_found"


def schema_of(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 3}, {"type": "string", "pattern": "("},
        {"$ref": "http://localhost:1/x"}, {"$ref": "#/$defs/missing"}, {"minimum": "x"}, {"enum": []}, {"not": {}},
        {"allOf": [False]},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_that_means_nothing_is_a_400(listener: Listener, schema: dict[str, Any]) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    status, answer = asked(
        listener, CHAT, messages=[{"role": "user", "content": "x"}], response_format=form, max_tokens=1
    )
    assert status == 400
    assert answer["error"]["param"] == "response_format"


@pytest.mark.parametrize(
    "schema",
    [
        schema_of(20), {"$ref": "#"}, {"enum": list(range(3000))}, {}, {"pattern": "(a{1,900}){1,900}", "type": "string"},
        {"type": "array", "minItems": 10**12, "items": {"type": "integer"}},
    ],
    ids=range(6),
)  # fmt: skip
def test_a_large_or_empty_schema_is_followed(listener: Listener, schema: dict[str, Any]) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    messages = [{"role": "user", "content": "x"}]
    assert asked(listener, CHAT, messages=messages, response_format=form, max_tokens=3)[0] == 200


@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1e-320}, {"logit_bias": {str(id_): 1.7e308 for id_ in range(261)}},
        {"temperature": 1e-320}, {"temperature": 1e308}, {"top_p": 1e-320}, {"top_k": 10**400},
        {"logit_bias": {"65": 1.7e308}, "temperature": 1e-300}, {"seed": -(2**63)}, {"stop": ["\ud800", "x" * 90_000]},
    ],
    ids=lambda options: str(options)[:40],
)  # fmt: skip
def test_numbers_at_the_edge_draw_a_token(listener: Listener, options: dict[str, Any]) -> None:
    status, answer = asked(listener, TEXT, prompt="x", max_tokens=4, **options)
    assert status == 200, answer


@pytest.mark.parametrize("header", ["Authorization: Bearer other", "Content-Type: text/plain", "Content-Length: 3"])
def test_a_header_that_comes_twice_is_a_400(listener: Listener, header: str) -> None:
    status, _ = exchanged(listener, posted(b'{"prompt": "x"}', more=f"{header}\r\n"))
    assert status == 400


def test_a_body_longer_or_shorter_than_it_says_disturbs_nobody(listener: Listener) -> None:
    body = b'{"prompt": "x", "max_tokens": 1}'
    with socket.create_connection((listener.host, listener.port), 10) as connection:
        connection.sendall(posted(body, length=len(body) + 50))
    assert exchanged(listener, posted(body, length=len(body) - 1))[0] == 400
    assert exchanged(listener, posted(body))[0] == 200


def test_a_body_that_arrives_too_slowly_is_a_408(model: LanguageModel) -> None:
    settings = Settings("tiny", body_seconds=0.3)
    with (
        serving(Service(model, settings, Limits(places=3))) as running,
        socket.create_connection((running.host, running.port), 10) as connection,
    ):
        connection.sendall(posted(b'{"prompt"', length=100))
        with contextlib.suppress(BrokenPipeError):  # the answer came already
            for _ in range(6):
                time.sleep(0.1)
                connection.sendall(b" ")
        assert connection.recv(100).startswith(b"HTTP/1.1 408")


class Request:
    def __init__(self) -> None:
        self.response_complete = False


class Connection:
    def __init__(self) -> None:
        self.cycle: Request | None = None
        self.ended = False

    @property
    def transport(self) -> "Connection":
        return self

    def abort(self) -> None:
        self.ended = True


def test_a_connection_without_a_request_is_ended_after_a_while_and_one_at_work_is_not() -> None:
    now = 0.0
    silent, working, busy = Connection(), Connection(), Connection()
    working.cycle = Request()
    idle = IdleConnections(10, lambda: now)
    for now in range(0, 30, 3):  # the clock
        busy.cycle = Request()
        busy.cycle.response_complete = True
        idle.end_overdue([one for one in (silent, working, busy) if not one.ended])
        assert silent.ended == (now > 10)
    assert not working.ended
    assert not busy.ended


def test_connections_that_send_no_request_are_ended(model: LanguageModel) -> None:
    with serving(Service(model, Settings("tiny"), Limits(places=3)), idle_seconds=0.5) as running:
        address = (running.host, running.port)
        silent = [socket.create_connection(address, 10) for _ in range(20)]
        for place, connection in enumerate(silent):
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"[: 3 * place])
        for connection in silent:
            with connection:
                try:
                    assert connection.recv(10) == b""
                except ConnectionResetError:
                    continue


def test_a_failure_in_drawing_one_text_s_token_is_no_other_s(
    service: Service, client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = service.planned

    def broken(prompt: Any, choices: Any, **options: Any) -> Any:
        texts = plan(prompt, choices, **options)
        if prompt == "break":
            monkeypatch.setattr(texts[0], "take", lambda logits: 1 // 0)
        return texts

    monkeypatch.setattr(service, "planned", broken)

    def text(prompt: str) -> str:
        try:
            return client.completions.create(model="tiny", prompt=prompt, max_tokens=60, temperature=0).choices[0].text
        except openai.InternalServerError as error:
            return str(error)

    expected = text("abc")
    with ThreadPoolExecutor(3) as threads:
        texts = list(threads.map(text, ["abc", "break", "abc"]))
    assert [texts[0], texts[2]] == [expected, expected]
    assert "ZeroDivisionError" in texts[1]


def test_requests_that_are_cancelled_together_leave_nothing(client: openai.OpenAI, service: Service) -> None:
    body = json.dumps({"prompt": "x" * 50, "max_tokens": 300, "stream": True, "logit_bias": {"257": -100}, "n": 2})

    def leave(place: int) -> None:
        with socket.create_connection((client.base_url.host, client.base_url.port or 0), 10) as connection:
            connection.sendall(posted(body.encode()))
            if place % 2:
                connection.recv(200)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(leave, range(64)))
    assert service.runner is not None
    deadline = time.monotonic() + 20
    while service.runner.load().running or service.runner.load().waiting:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert client.completions.create(model="tiny", prompt="x", max_tokens=1).choices


@pytest.fixture
def streaming(listener: Listener) -> Iterator[list[float]]:
    """Times of the pieces of a stream that runs beside the test."""
    came: list[float] = []
    body = {"prompt": "x", "max_tokens": 500, "stream": True, "logit_bias": {"257": -100}, "logprobs": 0}

    def read() -> None:
        with socket.create_connection((listener.host, listener.port), 30) as connection:
            connection.sendall(posted(json.dumps(body).encode()))
            while connection.recv(65536):
                came.append(time.perf_counter())

    thread = threading.Thread(target=read)
    thread.start()
    yield came
    thread.join(30)


def test_a_running_stream_goes_on_among_hundreds_of_bad_requests(listener: Listener, streaming: list[float]) -> None:
    bodies = [b"", b"{", deep(101), b'{"prompt": "x", "n": 128}', b'{"prompt": "' + b"y" * 50_000 + b'"}']

    def send(place: int) -> int:
        return exchanged(listener, posted(bodies[place % len(bodies)]))[0]

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(send, range(300)))
    assert set(statuses) == {400}
    assert streaming


def test_a_wrong_key_of_any_bytes_is_a_401(listener: Listener) -> None:
    request = posted(b'{"prompt": "x"}')
    for key in (b"\xff\xfe", b"", b" " * 10, KEY.encode() + b"x"):
        assert exchanged(listener, request.replace(b"Bearer " + KEY.encode(), b"Bearer " + key))[0] == 401
