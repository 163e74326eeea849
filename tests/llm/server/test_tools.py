"""Tools, response formats and thinking over a real socket: what the `openai` client is told."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import openai
import pytest
from tests.llm.running_server import serving

from snell.llm import LanguageModel
from snell.llm.engine_compiler import EngineCompiler
from snell.llm.server import Service, Settings
from snell.llm.serving import Limits
from snell.llm.template_source import TemplateSource

QUESTION: Any = [{"role": "user", "content": "hi"}]
TOOLS: Any = [
    {"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 3}}, "required": ["city"],
        "additionalProperties": False}}},
    {"type": "function", "function": {"name": "stop", "parameters": {"properties": {}, "additionalProperties": False}}},
]  # fmt: skip
TEMPLATE = (
    '{% if tools %}{{ tools | tojson }}{"name": function, "parameters": arguments}{% endif %}'
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}"
    "{% for call in message.tool_calls %}{{ call.function.arguments.city }}{% endfor %}{% endfor %}"
    "{% if enable_thinking %}<think>{% endif %}"
)
ANSWER = {
    "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def service(model: LanguageModel, compiler: EngineCompiler) -> Service:
    parts = replace(model.parts, template=TemplateSource(TEMPLATE + "{# </think> #}", "", ""))
    calling = LanguageModel(parts, compiler, context=model.context, kv_dtype=model.kv_dtype)
    return Service(calling, Settings("tiny"), Limits(places=3))


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[openai.OpenAI]:
    with serving(service) as running:
        yield openai.OpenAI(base_url=running.url, api_key="any", max_retries=0, timeout=60)


def chat(client: openai.OpenAI, **options: Any) -> Any:
    settings: Any = {"model": "tiny", "messages": QUESTION, "max_tokens": 200, "temperature": 0} | options
    return client.chat.completions.create(**settings)


def named(name: str) -> Any:
    return {"type": "function", "function": {"name": name}}


def test_a_required_call_has_arguments_of_its_schema(client: openai.OpenAI) -> None:
    choice = chat(client, tools=TOOLS, tool_choice=named("weather")).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name) == ("function", "weather")
    assert len(json.loads(call.function.arguments)["city"]) <= 3
    assert chat(client, tools=TOOLS, tool_choice="required", seed=1).choices[0].message.tool_calls


@pytest.mark.parametrize("seed", range(3))
def test_the_deltas_of_a_call_joined_are_the_call(client: openai.OpenAI, seed: int) -> None:
    options = {"tools": TOOLS, "tool_choice": "required", "seed": seed, "temperature": 1}
    (expected,) = chat(client, **options).choices[0].message.tool_calls
    pieces = [piece.choices[0] for piece in chat(client, **options, stream=True)]
    deltas = [delta for piece in pieces for delta in piece.delta.tool_calls or []]
    assert (deltas[0].function.name, deltas[0].type, deltas[0].index) == (expected.function.name, "function", 0)
    assert deltas[0].id
    assert "".join(delta.function.arguments for delta in deltas) == expected.function.arguments
    assert len(deltas) > 1
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["tool_calls"]
    assert not any(piece.delta.content for piece in pieces)


def test_a_call_that_the_limit_cuts_has_the_beginning_of_its_arguments(client: openai.OpenAI) -> None:
    choice = chat(client, tools=TOOLS, tool_choice=named("weather"), max_tokens=40).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls[0].function.arguments.startswith("{")


def test_without_tools_to_call_the_answer_is_text(client: openai.OpenAI) -> None:
    choice = chat(client, tools=TOOLS, tool_choice="none", max_tokens=5).choices[0]
    assert choice.message.tool_calls is None
    assert choice.message.content == chat(client, max_tokens=5).choices[0].message.content


def test_calls_and_their_results_go_back_into_the_conversation(client: openai.OpenAI) -> None:
    message = chat(client, tools=TOOLS, tool_choice=named("weather")).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sun"}
    history = [*QUESTION, message.model_dump(), result]
    assert chat(client, messages=history, tools=TOOLS, max_tokens=2).choices[0].finish_reason
    for wrong in ("{", "[1]"):
        history[1]["tool_calls"][0]["function"]["arguments"] = wrong
        with pytest.raises(openai.BadRequestError, match="expected the JSON of an object"):
            chat(client, messages=history, tools=TOOLS)


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_format_binds_the_text(client: openai.OpenAI, stream: bool) -> None:
    for form, check in (
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": ANSWER, "strict": True}}, {"ok"}),
        ({"type": "json_object"}, set()),
    ):
        answer = chat(client, response_format=form, stream=stream, temperature=1, seed=3, max_tokens=400)
        parts = [piece.choices[0].delta for piece in answer] if stream else [answer.choices[0].message]
        value = json.loads("".join(part.content or "" for part in parts))
        assert isinstance(value, dict)
        assert check <= value.keys()


def test_texts_with_different_rules_are_written_together(client: openai.OpenAI) -> None:
    def answer(place: int) -> str:
        if place % 3 == 0:
            return chat(client, max_tokens=20).choices[0].message.content
        if place % 3 == 1:
            form = {"type": "json_schema", "json_schema": {"name": "a", "schema": ANSWER}}
            return chat(client, response_format=form).choices[0].message.content
        return (
            chat(client, tools=TOOLS, tool_choice=named("weather")).choices[0].message.tool_calls[0].function.arguments
        )

    alone = [answer(place) for place in range(3)]
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(answer, range(12))) == alone * 4


def test_several_choices_share_a_schema(client: openai.OpenAI) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": ANSWER}}
    choices = chat(client, response_format=form, n=4, temperature=1, seed=5).choices
    assert [isinstance(json.loads(choice.message.content)["ok"], bool) for choice in choices] == [True] * 4


def test_thinking_is_not_the_content(client: openai.OpenAI) -> None:
    choice = chat(client, max_tokens=5, extra_body={"chat_template_kwargs": {"enable_thinking": True}}).choices[0]
    assert choice.message.content == ""
    assert choice.message.reasoning_content
    pieces = chat(client, max_tokens=5, reasoning_effort="low", stream=True)
    deltas = [piece.choices[0].delta for piece in pieces]
    assert "".join(getattr(one, "reasoning_content", "") or "" for one in deltas) == choice.message.reasoning_content
    assert chat(client, max_tokens=5, reasoning_effort="none").choices[0].message.content


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"tools": [named("a"), named("a")]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "objct"}}}]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"$ref": "#/no"}}}]}, "tools"),
        ({"tools": TOOLS, "tool_choice": named("other")}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "any"}, "tool_choice"),
        ({"tools": TOOLS * 65}, "tools"),
        ({"tools": TOOLS, "parallel_tool_calls": 3}, "parallel_tool_calls"),
        ({"reasoning_effort": "most"}, "reasoning_effort"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"pattern": "("}}}}, "response_format"),
        ({"tools": TOOLS, "extra_body": {"grammar": 'start: "a"'}}, "grammar"),
    ],
)
def test_what_is_wrong_with_tools_or_formats_is_named(client: openai.OpenAI, options: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        chat(client, **options)
    assert raised.value.param == param


def test_no_thread_of_a_grammar_is_left(client: openai.OpenAI, service: Service) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": ANSWER}}
    chat(client, response_format=form, n=3)
    stream = chat(client, response_format=form, n=2, stream=True)
    next(iter(stream))
    stream.close()
    with pytest.raises(openai.BadRequestError):
        chat(client, response_format=form, max_tokens=5000)
    with pytest.raises(openai.BadRequestError):
        chat(client, response_format=form, messages=[{"role": "user", "content": "x" * 2000}], n=2)
    assert service.runner is not None
    while service.runner.load().running or service.runner.load().waiting:
        pass
    grammar_threads = [thread for thread in threading.enumerate() if thread.name.startswith("snell-grammar")]
    for thread in grammar_threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in grammar_threads)
