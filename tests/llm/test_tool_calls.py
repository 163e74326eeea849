"""Tool calls: the three families' forms, read and constrained."""

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
from snell.llm.interpreted import InterpretingCompiler
from snell.llm.template_source import TemplateSource
from snell.llm.tokenizer import Tokenizer
from snell.llm.tool_call_forms import ListedCalls, NamedCalls, TaggedCalls, WholeCall, tool_call_form
from snell.llm.tool_calls import ToolCallForm, ToolCallReader, read_tools, tools_grammar

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


@pytest.mark.parametrize(("form", "text", "shown", "calls"), TEXTS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_calls_are_taken_out_of_a_text_however_it_is_cut(form, text: str, shown: str, calls, size: int) -> None:
    reader = ToolCallReader(form)
    pieces = [reader.push(text[at : at + size]) for at in range(0, len(text), size)]
    rest, found = reader.finish()
    assert "".join(pieces) + rest == shown
    assert [(call.name, call.arguments) for call in found] == calls
    assert len({call.id for call in found}) == len(calls)


@pytest.mark.parametrize(("form", "text", "shown", "calls"), [row for row in TEXTS if row[3]])
def test_a_call_that_was_cut_short_is_text(form, text: str, shown: str, calls) -> None:
    reader = ToolCallReader(form)
    cut = text[: -2 if text.endswith("}") else -1]
    begun = reader.push(cut)
    assert (begun + reader.finish()[0], reader.finish()[1]) == (cut, ())


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


def followed(form: ToolCallForm, text: str) -> str:
    """How much of the text the grammar of the tools allows, token by token; "…" where it may not end there."""
    tokenizer, tokens = smollm2()
    constraint = tokens.constraint(tools_grammar(form, read_tools(TOOLS), tokenizer), "tools")
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


def test_descriptions_that_are_none_are_refused() -> None:
    for tools, said in [([], "at least one"), ([{"name": "f"}], "received"), ([3], "received 3"),
                        ([{"function": {"name": "f", "parameters": [1]}}], "JSON schema")]:  # fmt: skip
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
