"""The server as its clients see it: the `openai` client over a real socket, and clients that misbehave."""

import base64
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from tests.llm.running_server import KEY, exchanged, posted, serving
from tests.llm.tiny_models import save_folder, tiny_bert

from snell.llm import LanguageModel, load
from snell.llm.engine_compiler import EngineCompiler
from snell.llm.server import Listener, Service, Settings
from snell.llm.serving import Limits

NAME = "tiny"
QUESTION: Any = [{"role": "user", "content": "hello"}]


def completed(client: openai.OpenAI, prompt: str, **options: Any) -> str:
    settings = {"max_tokens": 12, "temperature": 0.0, "logit_bias": {"257": -100}} | options
    return client.completions.create(model=NAME, prompt=prompt, **settings).choices[0].text


def test_a_conversation_is_answered_as_the_model_answers_it(client: openai.OpenAI, model: LanguageModel) -> None:
    answer = client.chat.completions.create(model=NAME, messages=QUESTION, max_tokens=10, temperature=0, logprobs=True)
    expected = model.generate(QUESTION, max_tokens=10, temperature=0.0)
    assert answer.choices[0].message.content == expected.text
    assert answer.choices[0].finish_reason == expected.finish_reason
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == expected.usage.prompt_tokens
    assert answer.usage.completion_tokens == expected.usage.completion_tokens


def test_a_stream_joined_is_the_whole_answer_and_ends_with_its_usage(client: openai.OpenAI) -> None:
    options: Any = {"model": NAME, "messages": QUESTION, "max_tokens": 20, "temperature": 0.8, "seed": 7, "n": 2}
    whole = client.chat.completions.create(**options)
    pieces = list(client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    for index, choice in enumerate(whole.choices):
        mine = [one for piece in pieces for one in piece.choices if one.index == index]
        assert mine[0].delta.role == "assistant"
        assert "".join(one.delta.content or "" for one in mine) == choice.message.content
        assert [one.finish_reason for one in mine if one.finish_reason] == [choice.finish_reason]
    assert pieces[-1].choices == []
    assert pieces[-1].usage == whole.usage


def test_a_seed_repeats_a_text_alone_and_among_others(client: openai.OpenAI) -> None:
    def text(prompt: str, seed: int) -> str:
        return completed(client, prompt, seed=seed, temperature=1.0, max_tokens=30)

    alone = [text(f"prompt {one}", one) for one in range(6)]
    with ThreadPoolExecutor(12) as threads:
        together = list(threads.map(text, *zip(*[(f"prompt {one}", one) for one in range(6)] * 2, strict=True)))
    assert together == alone * 2


def test_a_longer_conversation_reuses_what_was_read(client: openai.OpenAI, service: Service) -> None:
    assert service.runner is not None
    prompt = "a beginning that two requests share, " * 5
    completed(client, prompt)
    before = service.runner.load().reused_tokens
    cached = completed(client, prompt + "and an end", logprobs=None)
    assert service.runner.load().reused_tokens - before >= len(prompt) - 10
    with serving(Service(service.model, Settings(NAME), Limits(places=3))) as fresh:
        other = openai.OpenAI(base_url=fresh.url, api_key="any")
        assert completed(other, prompt + "and an end") == cached


def test_completions_echo_stop_and_list_log_probabilities(client: openai.OpenAI, model: LanguageModel) -> None:
    text = completed(client, "abc", max_tokens=8)
    assert completed(client, "abc", max_tokens=8, echo=True) == "abc" + text
    assert completed(client, "abc", max_tokens=0, echo=True) == "abc"
    stop = text[2:4]
    assert completed(client, "abc", max_tokens=8, stop=[stop]) == text[: text.index(stop)]
    answer = client.completions.create(model=NAME, prompt="abc", max_tokens=3, temperature=0, logprobs=2)
    listed = answer.choices[0].logprobs
    assert listed is not None
    assert listed.token_logprobs is not None
    assert all(value <= 0 for value in listed.token_logprobs)
    assert [len(top) for top in listed.top_logprobs or []] == [2] * len(listed.token_logprobs)


def test_several_prompts_have_their_choices_in_order(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=NAME, prompt=["abc", "xyz"], n=2, max_tokens=4, temperature=0, echo=True, logit_bias={"257": -100}
    )
    assert [choice.text[:3] for choice in answer.choices] == ["abc", "abc", "xyz", "xyz"]
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 6


def test_chat_log_probabilities_are_those_of_the_model(client: openai.OpenAI, model: LanguageModel) -> None:
    answer = client.chat.completions.create(
        model=NAME, messages=QUESTION, max_tokens=4, temperature=0, logprobs=True, top_logprobs=3
    )
    expected = model.generate(QUESTION, max_tokens=4, temperature=0.0, logprobs=3).logprobs
    assert expected is not None
    assert answer.choices[0].logprobs is not None
    content = answer.choices[0].logprobs.content
    assert content is not None
    np.testing.assert_allclose([one.logprob for one in content], [one.logprob for one in expected], atol=2e-2)
    assert all(len(one.top_logprobs) == 3 and one.top_logprobs[0].logprob >= one.logprob for one in content)


def test_embeddings_are_the_same_as_numbers_and_as_base64(listener: Listener, client: openai.OpenAI) -> None:
    numbers = client.embeddings.create(model=NAME, input=["one", "another"], encoding_format="float")
    packed: Any = client.embeddings.create(model=NAME, input=["one", "another"], encoding_format="base64")
    for one, other in zip(numbers.data, packed.data, strict=True):
        decoded = np.frombuffer(base64.b64decode(other.embedding), "<f4")
        np.testing.assert_allclose(decoded, one.embedding, rtol=1e-6)
        assert abs(np.linalg.norm(decoded) - 1) < 1e-5


def test_an_encoder_serves_embeddings_and_refuses_to_generate(folder: Path, compiler: EngineCompiler) -> None:
    model = load(save_folder(tiny_bert(), folder / "bert"), compiler=compiler)
    with serving(Service(model, Settings(NAME), Limits(places=3))) as running:
        client = openai.OpenAI(base_url=running.url, api_key="any", max_retries=0)
        assert len(client.embeddings.create(model=NAME, input="hello", dimensions=8).data[0].embedding) == 8
        with pytest.raises(openai.BadRequestError, match="embeds texts"):
            client.chat.completions.create(model=NAME, messages=QUESTION)


def test_the_model_is_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).id == NAME
    with pytest.raises(openai.NotFoundError, match="not served here"):
        client.models.retrieve("another")


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "objct"}}}}, "response_format"),
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"presence_penalty": True}, "presence_penalty"),
        ({"extra_body": {"repetition_penalty": 0}}, "repetition_penalty"),
        ({"extra_body": {"grammar": "start: missing"}}, "grammar"),
        ({"extra_body": {"chat_template_kwargs": {"messages": []}}}, "chat_template_kwargs"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"audio": {"voice": "x"}}, "audio"),
        ({"n": 41}, "n"),
        ({"seed": 2**70}, "seed"),
        ({"temperature": 10**400}, "temperature"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"logit_bias": {"5": 10**400}}, "logit_bias"),
        ({"logit_bias": {"300": 1}}, "logit_bias"),
        ({"messages": [{"role": "usr", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "contents": "x"}]}, "messages[0].contents"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"extra_body": {"no_such_thing": 1}}, "no_such_thing"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"n": 0}, "n"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"stop": [""]}, "stop"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, "messages[0].content"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"extra_body": {"stream_options": {"include_usage": True}}}, "stream_options"),
    ],
)
def test_what_is_wrong_or_unsupported_is_a_400_that_names_it(
    client: openai.OpenAI, options: dict[str, Any], param: str
) -> None:
    request: Any = {"model": NAME, "messages": QUESTION} | options
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(**request)
    assert raised.value.param == param
    assert raised.value.type == "invalid_request_error"


def test_options_that_ask_for_nothing_are_taken(client: openai.OpenAI) -> None:
    client.chat.completions.create(
        model=NAME, messages=QUESTION, max_tokens=1, frequency_penalty=0, response_format={"type": "text"}, user="me",
        tools=[], tool_choice="none", parallel_tool_calls=True, store=False, metadata={}, verbosity="medium",
        extra_body={"functions": [], "function_call": "auto"},
    )  # fmt: skip


def test_a_text_beyond_the_context_says_so(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        completed(client, "x" * 1000, max_tokens=100)
    assert raised.value.code == "context_length_exceeded"


def test_another_model_or_path_is_a_404_and_another_key_a_401(client: openai.OpenAI, listener: Listener) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        client.completions.create(model="another", prompt="x")
    assert raised.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=listener.url, api_key="wrong", max_retries=0).models.list()
    assert exchanged(listener, b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")[0] == 404


def test_a_full_queue_is_a_429(model: LanguageModel) -> None:
    with serving(Service(model, Settings(NAME), Limits(places=3, waiting=2))) as running:
        client = openai.OpenAI(base_url=running.url, api_key="any", max_retries=0)
        options: Any = {"model": NAME, "prompt": "x", "stream": True, "temperature": 0, "logit_bias": {"257": -100}}
        written = [client.completions.create(max_tokens=500, **options) for _ in range(3)]
        for stream in written:
            next(iter(stream))
        waiting = client.completions.create(model=NAME, prompt="x", n=2, max_tokens=1, stream=True)
        with pytest.raises(openai.RateLimitError) as raised:
            client.completions.create(model=NAME, prompt="x")
        assert raised.value.code == "queue_full"
        assert [list(stream)[-1].choices[0].finish_reason for stream in written] == ["length"] * 3
        assert list(waiting)


def test_a_request_that_takes_too_long_is_ended(model: LanguageModel) -> None:
    with serving(Service(model, Settings(NAME, request_seconds=0.0), Limits(places=3))) as running:
        client = openai.OpenAI(base_url=running.url, api_key="any", max_retries=0)
        with pytest.raises(openai.InternalServerError, match="took longer"):
            completed(client, "x")


def test_health_needs_no_key_and_metrics_count(client: openai.OpenAI, listener: Listener) -> None:
    completed(client, "x")
    assert exchanged(listener, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")[0] == 200
    status, body = exchanged(
        listener,
        f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n\r\n".encode(),
    )
    assert status == 200
    assert 'snell_requests_total{path="/v1/completions",status="200"}' in body
    assert "snell_next_token_seconds_bucket" in body


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (posted(b"not json"), 400),
        (posted(b"[1, 2]"), 400),
        (posted(b'{"prompt": "\xff"}'), 400),
        (posted(b"[" * 50_000), 400),
        (posted(b'{"prompt": "x"}', "text/plain"), 415),
        (posted(b" " * 200_000), 413),
    ],
)
def test_garbage_is_refused_in_the_form_of_the_interface(listener: Listener, request_bytes: bytes, status: int) -> None:
    received, body = exchanged(listener, request_bytes)
    assert received == status
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


def test_a_client_that_leaves_stops_its_work(client: openai.OpenAI, service: Service) -> None:
    assert service.runner is not None
    for _ in range(2):
        stream = client.completions.create(
            model=NAME, prompt="x", max_tokens=500, stream=True, logit_bias={"257": -100}, temperature=0
        )
        next(iter(stream))
        stream.close()
    body = json.dumps({"prompt": "x", "max_tokens": 500, "logit_bias": {"257": -100}}).encode()
    connection = socket.create_connection(tuple(_address(client)))
    connection.sendall(posted(body))
    connection.close()
    deadline = time.monotonic() + 20
    before = service.runner.load().generated_tokens
    while service.runner.load().running or service.runner.load().waiting:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert service.runner.load().generated_tokens - before < 1500


def _address(client: openai.OpenAI) -> tuple[str, int]:
    assert client.base_url.port is not None
    return client.base_url.host, client.base_url.port


def misbehaved(client: openai.OpenAI, kind: int) -> None:
    """A client that sends garbage, half of a request, nothing, or asks for a stream that it does not read."""
    body = json.dumps({"prompt": "y", "max_tokens": 200, "stream": True}).encode()
    sent = (b"\x00\xff garbage\r\n\r\n", posted(body[:9], length=len(body)), b"", posted(body))[kind % 4]
    with socket.create_connection(_address(client)) as connection:
        connection.sendall(sent)
        time.sleep(0.02)


def test_under_load_every_request_is_answered_with_its_own_text(client: openai.OpenAI, service: Service) -> None:
    prompts = [f"question {one}: " for one in range(12)]
    alone = [completed(client, prompt) for prompt in prompts]

    def work(place: int) -> str | None:
        if place % 4 == 3:
            misbehaved(client, place // 4)
            return None
        return completed(client, prompts[place % 12])

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(work, range(160)))
    for place, answer in enumerate(answers):
        assert answer is None or answer == alone[place % 12]
    assert sum(answer is not None for answer in answers) == 120
    assert service.runner is not None
    assert service.runner.load().waiting == 0


def test_an_ending_server_finishes_its_streams(model: LanguageModel) -> None:
    with serving(Service(model, Settings(NAME), Limits(places=3))) as running:
        client = openai.OpenAI(base_url=running.url, api_key="any", max_retries=0)
        stream = client.completions.create(
            model=NAME, prompt="x", max_tokens=300, stream=True, temperature=0, logit_bias={"257": -100}
        )
        pieces = iter(stream)
        next(pieces)
        running.stop()
        rest = list(pieces)
        assert rest[-1].choices[0].finish_reason == "length"
        time.sleep(0.3)
        with pytest.raises(openai.APIConnectionError):
            client.models.list()


@pytest.mark.parametrize(
    "options", [{"frequency_penalty": 1.5}, {"presence_penalty": -2.0}, {"repetition_penalty": 1.3}], ids=str
)
def test_penalties_work_in_a_batch_as_they_do_alone(
    client: openai.OpenAI, model: LanguageModel, options: dict[str, float]
) -> None:
    def text(prompt: str) -> str:
        return completed(client, prompt, max_tokens=30, extra_body=options)

    with ThreadPoolExecutor(3) as threads:
        texts = list(threads.map(text, ["abc", "xyz", "hello"]))
    expected = [
        model.generate(prompt, max_tokens=30, temperature=0.0, logit_bias={257: -100.0}, **options).text
        for prompt in ("abc", "xyz", "hello")
    ]
    plain = model.generate("abc", max_tokens=30, temperature=0.0, logit_bias={257: -100.0}).text
    assert texts == expected
    assert texts[0] != plain


@pytest.mark.parametrize("stream", [False, True])
def test_an_echoed_prompt_is_scored_token_by_token(client: openai.OpenAI, model: LanguageModel, stream: bool) -> None:
    prompt, options = "hello é", {"temperature": 0.0, "logprobs": 2, "echo": True, "max_tokens": 3}
    ids = model.tokenizer.encode(prompt)
    answer = client.completions.create(model=NAME, prompt=prompt, stream=stream, **options)
    parts = [piece.choices[0] for piece in answer] if stream else [answer.choices[0]]
    listed = [part.logprobs for part in parts if part.logprobs is not None]
    tokens = [token for part in listed for token in part.tokens or []]
    values = [value for part in listed for value in part.token_logprobs or []]
    offsets = [offset for part in listed for offset in part.text_offset or []]
    logits = model.logits(ids).astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    assert tokens[:2] == ["he", "l"]
    assert values[0] is None
    np.testing.assert_allclose(values[1 : len(ids)], [expected[at, id_] for at, id_ in enumerate(ids[1:])], atol=2e-2)
    assert offsets[: len(ids) + 1] == [0, 2, 3, 4, 5, 6, 7, 7]
    assert len(tokens) == len(ids) + 3
    assert "".join(part.text for part in parts) == prompt + completed(client, prompt, max_tokens=3, logit_bias={})


def test_scoring_alone_needs_no_new_token(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=NAME, prompt=["abc", "xy"], max_tokens=0, echo=True, logprobs=0)
    assert [choice.text for choice in answer.choices] == ["abc", "xy"]
    assert [len(choice.logprobs.tokens) for choice in answer.choices if choice.logprobs] == [3, 2]


def test_embeddings_of_token_ids_are_those_of_their_text(client: openai.OpenAI, model: LanguageModel) -> None:
    ids = model.tokenizer.encode("hello")
    texts = client.embeddings.create(model=NAME, input=["hello", "x"]).data
    assert client.embeddings.create(model=NAME, input=ids).data[0].embedding == texts[0].embedding
    several = client.embeddings.create(model=NAME, input=[ids, model.tokenizer.encode("x")]).data
    assert [one.embedding for one in several] == [one.embedding for one in texts]
