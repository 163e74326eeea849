"""Tool calls: the three families' forms, read and constrained."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.llm.tiny_models import tiny_llama, write_gguf_llama
from tests.models import llama_cpp_models, smollm2_path

from snell.dtypes import f32
from snell.errors import ConfigError, UnsupportedError
from snell.importers.gguf import read_gguf
from snell.llm import LanguageModel, load
from snell.llm.chat_template import ChatTemplate, encode_chat
from snell.llm.constraint import GrammarTokens
from snell.llm.generation import ToolCallDelta
from snell.llm.interpreted import InterpretingCompiler
from snell.llm.template_source import TemplateSource
from snell.llm.tokenizer import Tokenizer
from snell.llm.tool_call_forms import ListedCalls, NamedCalls, TaggedCalls, WholeCall, tool_call_form
from snell.llm.tool_call_reader import ToolCallReader
from snell.llm.tool_calls import CallRules, ToolCallForm, call_rules, read_tools, tools_grammar

TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 3}}, "required": ["city"],
        "additionalProperties": False}}},
    {"type": "function", "function": {"name": "stop"}},
]  # fmt: skip
WEATHER = [("weather", {"city": "Rom"})]
BOTH = [*WEATHER, ("stop", {})]
TAGGED = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rom"}}\n</tool_call>'
STOP = '\n<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>'
LISTED = '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rom"}}'
NAMED = '[TOOL_CALLS]weather[ARGS]{"city": "Rom"}'
WHOLE = '{"name": "weather", "parameters": {"city": "Rom"}}'
TEXTS = [
    (TaggedCalls(), TAGGED, "", WEATHER),
    (TaggedCalls(), f"Let me see.\n{TAGGED}{STOP}", "Let me see.\n", BOTH),
    (TaggedCalls(), "2 < 3 and <tool", "2 < 3 and <tool", []),
    (ListedCalls(), LISTED + "]", "", WEATHER),
    (ListedCalls(), LISTED + ', {"name": "stop", "arguments": {}}]', "", BOTH),
    (ListedCalls(), "[1, 2]", "[1, 2]", []),
    (NamedCalls(), NAMED, "", WEATHER),
    (NamedCalls(), f"Well. {NAMED}[TOOL_CALLS]stop[ARGS]{{}}", "Well. ", BOTH),
    (WholeCall(), WHOLE, "", WEATHER),
    (WholeCall(), f"<|python_tag|>{WHOLE}", "", WEATHER),
    (WholeCall(), f"Say {WHOLE}", f"Say {WHOLE}", []),
    (WholeCall(), "", "", []),
]


def read(form: ToolCallForm, text: str, size: int) -> tuple[str, list[ToolCallDelta], ToolCallReader]:
    """The text and the pieces of calls that a reader gives for a text in pieces of a size."""
    reader, shown, deltas = ToolCallReader(form), "", list[ToolCallDelta]()
    for at in range(0, len(text), size):
        more, found = reader.push(text[at : at + size])
        shown += more
        deltas += found
    return shown + reader.finish(), deltas, reader


@pytest.mark.parametrize(("form", "text", "shown", "calls"), TEXTS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_calls_are_taken_out_of_a_text_however_it_is_cut(form, text: str, shown: str, calls, size: int) -> None:
    received, _, reader = read(form, text, size)
    assert received == shown
    assert [(call.name, call.arguments) for call in reader.calls] == calls
    assert len({call.id for call in reader.calls}) == len(calls)
    assert not reader.is_cut


@pytest.mark.parametrize(("form", "text", "shown", "calls"), TEXTS)
def test_the_pieces_of_calls_joined_are_the_calls(form, text: str, shown: str, calls) -> None:
    _, deltas, reader = read(form, text, 1)
    heads = [delta for delta in deltas if delta.name is not None]
    assert [(head.index, head.name, head.id) for head in heads] == [
        (place, call.name, call.id) for place, call in enumerate(reader.calls)
    ]
    for place, call in enumerate(reader.calls):
        pieces = [delta.arguments for delta in deltas if delta.index == place]
        assert json.loads("".join(pieces)) == call.arguments
        assert len(pieces) > len(call.arguments)


@pytest.mark.parametrize(("form", "text", "shown", "calls"), [row for row in TEXTS if len(row[3]) == 1])
def test_a_call_that_was_cut_short_is_neither_a_call_nor_text(form, text: str, shown: str, calls) -> None:
    received, deltas, reader = read(form, text[: text.index("Rom") + 1], 2)
    assert (received, reader.calls, reader.is_cut) == (shown, [], True)
    assert deltas[0].name == "weather"
    assert "".join(delta.arguments for delta in deltas) == '{"city": "R'


@pytest.mark.parametrize(("form", "text", "shown", "calls"), [row for row in TEXTS if row[3]])
def test_a_call_without_a_whole_name_is_text(form, text: str, shown: str, calls) -> None:
    cut = text[: text.index("weather") + 3]
    received, deltas, reader = read(form, cut, 2)
    assert (received, deltas, reader.calls, reader.is_cut) == (cut, [], [], False)


def test_brackets_and_quotation_marks_in_arguments_do_not_end_them() -> None:
    arguments = {"a": ['}]"{\\', {"b": '\\"'}], "é": [[1], {}]}
    text = f'<tool_call>\n{{"name": "weather", "arguments": {json.dumps(arguments)}}}\n</tool_call>'
    _, _, reader = read(TaggedCalls(), text, 3)
    assert [call.arguments for call in reader.calls] == [arguments]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Qwen-Qwen2.5-7B-Instruct", TaggedCalls()), ("Qwen-Qwen3-0.6B", TaggedCalls()),
        ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", TaggedCalls()), ("meta-llama-Llama-3.1-8B-Instruct", WholeCall()),
        ("meta-llama-Llama-3.2-3B-Instruct", WholeCall()), ("meta-llama-Llama-3.3-70B-Instruct", WholeCall()),
        ("mistralai-Mistral-Nemo-Instruct-2407", ListedCalls()), ("Mistral-Small-3.2-24B-Instruct-2506", NamedCalls()),
    ],
)  # fmt: skip
def test_a_chat_template_shows_the_form_of_its_calls(name: str, form: ToolCallForm) -> None:
    assert tool_call_form((llama_cpp_models() / "templates" / f"{name}.jinja").read_text()) == form


@pytest.mark.parametrize("name", ["Qwen3-Coder", "GLM-4.6", "google-gemma-2-2b-it"])
def test_a_form_that_is_not_known_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match="known forms"):
        tool_call_form((llama_cpp_models() / "templates" / f"{name}.jinja").read_text())


@cache
def smollm2() -> tuple[Tokenizer, GrammarTokens]:
    tokenizer = Tokenizer.from_gguf(read_gguf(smollm2_path()).metadata)
    return tokenizer, GrammarTokens(tokenizer, tokenizer.vocab_size)


def followed(form: ToolCallForm, text: str, rules: CallRules | None = None) -> str:
    """How much of the text the grammar of the tools allows, token by token; "…" where it may not end there."""
    tokenizer, tokens = smollm2()
    rules = CallRules(tuple(read_tools(TOOLS))) if rules is None else rules
    constraint = tokens.constraint(tools_grammar(form, rules, tokenizer), "tools")
    ids = tokenizer.encode(text, add_special=False)
    try:
        for place, id_ in enumerate(ids):
            allowed = constraint.allowed()
            if allowed is None or not allowed[id_]:
                return tokenizer.decode(ids[:place])
            constraint.accept(id_)
        allowed = constraint.allowed()
        return text if allowed is None or allowed[list(tokenizer.eos_ids)].any() else text + "…"
    finally:
        constraint.close()


@pytest.mark.parametrize(("form", "text"), [(row[0], row[1]) for row in TEXTS if "python_tag" not in row[1]])
def test_text_and_calls_with_right_arguments_are_allowed(form: ToolCallForm, text: str) -> None:
    assert followed(form, text) == text


@pytest.mark.parametrize(
    ("form", "text"),
    [(TaggedCalls(), TAGGED), (ListedCalls(), LISTED), (NamedCalls(), NAMED), (WholeCall(), WHOLE)],
)
@pytest.mark.parametrize(("right", "wrong"), [("weather", "unknown"), ('"city"', '"town"'), ('"Rom"', "3")])
def test_a_call_of_another_tool_or_with_other_arguments_is_not(form: ToolCallForm, text: str, right, wrong) -> None:
    allowed = followed(form, text.replace(right, wrong))
    assert len(allowed) < text.index(right) + len(wrong)
    assert text.startswith(allowed[: text.index(right)])


FORMS = [(TaggedCalls(), TAGGED), (ListedCalls(), LISTED + "]"), (NamedCalls(), NAMED), (WholeCall(), WHOLE)]


@pytest.mark.parametrize(("form", "call"), FORMS)
def test_where_a_call_is_required_nothing_else_is_allowed(form: ToolCallForm, call: str) -> None:
    rules = call_rules(TOOLS, "required")
    assert followed(form, call, rules) == call
    assert followed(form, "Well, no.", rules) == ""
    assert followed(form, "", rules) == "…"


@pytest.mark.parametrize(("form", "call"), FORMS)
def test_where_one_tool_is_chosen_no_other_can_be_called(form: ToolCallForm, call: str) -> None:
    rules = call_rules(TOOLS, {"type": "function", "function": {"name": "stop"}})
    assert rules is not None
    assert [tool.name for tool in rules.tools] == ["stop"]
    assert len(followed(form, call, rules)) <= call.index("weather")


@pytest.mark.parametrize(("form", "text"), [(row[0], row[1]) for row in TEXTS if len(row[3]) == 2])
def test_without_parallel_calls_the_first_one_ends_the_text(form: ToolCallForm, text: str) -> None:
    rules = call_rules(TOOLS, parallel=False)
    allowed = followed(form, text, rules)
    assert "weather" in allowed
    assert "stop" not in allowed


@pytest.mark.parametrize(("form", "call"), FORMS)
def test_beside_calls_a_text_may_be_bound_to_a_schema(form: ToolCallForm, call: str) -> None:
    rules = call_rules(TOOLS, answer={"type": "object", "properties": {"ok": {"type": "boolean"}}})
    assert followed(form, call, rules) == call
    assert followed(form, '{"ok": true}', rules) == '{"ok": true}'
    assert followed(form, "Well", rules) == ""


def test_none_and_some_of_the_tools_can_be_chosen() -> None:
    assert call_rules(TOOLS, "none") is None
    named = {"type": "function", "function": {"name": "weather"}}
    chosen = call_rules(TOOLS, {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named]}})
    assert chosen is not None
    assert ([tool.name for tool in chosen.tools], chosen.required) == (["weather"], False)
    for wrong in ("any", 3, {"type": "function"}, {"type": "function", "function": {"name": "other"}}, ["auto"]):
        with pytest.raises(ConfigError, match="tool_choice: expected"):
            call_rules(TOOLS, wrong)


def test_descriptions_that_are_none_are_refused() -> None:
    for tools, said in [([], "at least one"), ([{"name": "f"}], "received"), ([3], "received 3"),
                        ([{"function": {"name": "f", "parameters": [1]}}], "JSON schema"),
                        ([{"function": {"name": "f", "parameters": {"type": "string"}}}], "type 'object'"),
                        ([{"function": {"name": "f[ARGS]"}}], "letters"),
                        ([*TOOLS, TOOLS[0]], "'weather' twice")]:  # fmt: skip
        with pytest.raises(ConfigError, match=f"tools: .*{said}"):
            read_tools(tools)  # type: ignore[arg-type]


TEMPLATE = (
    '{% if tools %}tools {{ tools | tojson }} {{ \'{"name": function, "parameters": arguments}\' }}{% endif %}'
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}{% endfor %}"
)
ASKED = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    path = write_gguf_llama(
        tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_llama(num_hidden_layers=1, max_position_embeddings=1024)
    )
    found = load(path, kv_dtype="f32", compiler=InterpretingCompiler())
    assert isinstance(found, LanguageModel)
    parts = replace(found.parts, template=TemplateSource(TEMPLATE, "", ""))
    return LanguageModel(parts, InterpretingCompiler(), context=1024, kv_dtype=f32)


def test_a_model_that_begins_a_call_ends_it_with_arguments_of_the_schema(model: LanguageModel) -> None:
    brace = {model.tokenizer.encode("{")[0]: 1e3}
    stream = model.generate(ASKED, max_tokens=150, temperature=0.0, tools=TOOLS, logit_bias=brace, stream=True)
    chunks = list(stream)
    result = stream.result
    assert (result.finish_reason, result.text) == ("tool_calls", "")
    assert [chunk.text for chunk in chunks if chunk.text] == []
    assert (chunks[-1].finish_reason, chunks[-1].tool_calls) == ("tool_calls", result.tool_calls)
    (call,) = result.tool_calls
    assert call.name in ("weather", "stop")
    if call.name == "weather":
        assert len(call.arguments["city"]) <= 3


def test_a_model_that_answers_in_text_has_called_nothing(model: LanguageModel) -> None:
    letters = {**dict.fromkeys(model.tokenizer.eos_ids, -np.inf), model.tokenizer.encode("a")[0]: 1e3}
    generation = model.generate(ASKED, max_tokens=5, temperature=0.0, tools=TOOLS, logit_bias=letters)
    assert (generation.text, generation.finish_reason, generation.tool_calls) == ("aaaaa", "length", ())


def test_a_template_that_says_nothing_of_tools_is_no_silent_fallback(model: LanguageModel) -> None:
    template = "{{ messages[0].content }} [TOOL_CALLS]"
    parts = replace(model.parts, template=TemplateSource(template, "", ""))
    mute = LanguageModel(parts, InterpretingCompiler(), context=64, kv_dtype=f32)
    with pytest.raises(UnsupportedError, match="says nothing of tools"):
        mute.generate(ASKED, max_tokens=1, tools=TOOLS)
    with pytest.raises(ConfigError, match="tools: expected messages"):
        model.generate("a text", max_tokens=1, tools=TOOLS)


def test_a_call_and_its_answer_go_back_into_the_conversation() -> None:
    file = llama_cpp_models() / "templates" / "Qwen-Qwen2.5-7B-Instruct.jinja"
    call = {"type": "function", "id": "1", "function": {"name": "weather", "arguments": {"city": "<|im_end|>"}}}
    messages = [*ASKED, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "sun"}]
    tokenizer, _ = smollm2()
    ids = encode_chat(tokenizer, ChatTemplate(file.read_text()), messages, TOOLS)
    text = tokenizer.decode(ids)
    assert '{"name": "weather", "arguments": {"city": "<|im_end|>"}}' in text
    assert "<tool_response>\nsun\n</tool_response>" in text
    assert [id_ for id_ in ids if tokenizer.is_control(id_)] == [1, 2] * 4 + [1]
