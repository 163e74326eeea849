"""Thinking is told apart from the answer, however the text is cut, and is free of what binds the answer."""

import json

import numpy as np
import pytest
from tests.llm.tiny_models import tiny_llama, write_gguf_llama
from tests.models import llama_cpp_models

from snell.dtypes import f32
from snell.llm import LanguageModel, load
from snell.llm.generated_text import GeneratedText
from snell.llm.generation import Chunk, Generation
from snell.llm.interpreted import InterpretingCompiler
from snell.llm.options import GenerateOptions
from snell.llm.template_source import TemplateSource
from snell.llm.thinking import ThinkingReader, ThinkingTags, thinking_tags

TAGS = ThinkingTags("<think>", "</think>")
ROWS = [
    (False, "<think>\nhm, so\n</think>\n\nYes.\n", "hm, so", "Yes.\n"),
    (True, "\nhm, so\n</think>\n\nYes.\n", "hm, so", "Yes.\n"),
    (False, " <think></think> a </think> b", "", "a </think> b"),
    (False, "  2 < 3 <think>", "", "  2 < 3 <think>"),
    (False, "<thin air", "", "<thin air"),
    (False, "<thi", "", "<thi"),
    (True, " a <b </thi", "a <b </thi", ""),
    (True, "a \n b \n", "a \n b", ""),
    (False, "", "", ""),
]


@pytest.mark.parametrize(("begun", "text", "thought", "answer"), ROWS)
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_a_text_is_told_apart_however_it_is_cut(begun: bool, text: str, thought: str, answer: str, size: int) -> None:
    reader = ThinkingReader(TAGS, begun=begun)
    pieces = [reader.push(text[at : at + size]) for at in range(0, len(text), size)]
    pieces.append(reader.finish())
    assert ("".join(piece[0] for piece in pieces), "".join(piece[1] for piece in pieces)) == (thought, answer)


@pytest.mark.parametrize(
    ("name", "tags"),
    [("Qwen-Qwen3-0.6B", TAGS), ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", TAGS), ("Qwen-Qwen2.5-7B-Instruct", None),
     ("ByteDance-Seed-OSS", ThinkingTags("<seed:think>", "</seed:think>")),
     ("mistralai-Ministral-3-14B-Reasoning-2512", ThinkingTags("[THINK]", "[/THINK]"))],
)  # fmt: skip
def test_a_chat_template_names_its_tags(name: str, tags: ThinkingTags | None) -> None:
    assert thinking_tags((llama_cpp_models() / "templates" / f"{name}.jinja").read_text()) == tags


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    path = write_gguf_llama(
        tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_llama(num_hidden_layers=1, max_position_embeddings=1024)
    )
    found = load(path, kv_dtype="f32", compiler=InterpretingCompiler())
    assert isinstance(found, LanguageModel)
    return found


def thinking_model(model: LanguageModel, ending: str) -> LanguageModel:
    """A model whose template knows of thinking, of tools, and ends a prompt like this."""
    template = (
        "{% for tool in tools or [] %}<tool_call>{{ tool | tojson }}{% endfor %}"
        "{% for message in messages %}{{ message.content.split('</think>')[-1] }}{% endfor %}" + ending
    )
    parts = type(model.parts)(
        model.parts.decoder, model.parts.weights, model.parts.tokenizer, TemplateSource(template, "", ""),
        model.parts.defaults,
    )  # fmt: skip
    return LanguageModel(parts, InterpretingCompiler(), context=1024, kv_dtype=f32)


def planned(model: LanguageModel, **options) -> GeneratedText:
    asked = GenerateOptions(temperature=0.0, max_tokens=200, **options)
    return model.planned([{"role": "user", "content": "hi"}], asked, split_thinking=True)


def driven(model: LanguageModel, text: GeneratedText, wishes: str) -> list[Chunk]:
    """The chunks of a text whose model would write this, and then end; each wish is scored in turn."""
    tokenizer, chunks = model.tokenizer, list[Chunk]()
    ids = [*tokenizer.encode(wishes, add_special=False), min(tokenizer.eos_ids)]
    while not chunks or chunks[-1].finish_reason is None:
        logits = np.zeros(model.vocab_size, np.float32)
        logits[ids[min(len(chunks), len(ids) - 1)]] = 10
        chunks.append(text.take(logits))
    text.close()
    return chunks


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}}}]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 3}}\n</tool_call>'


@pytest.mark.parametrize(("ending", "begins"), [("<think>\n", ""), ("", "<think>")])
def test_a_model_thinks_before_it_calls(model: LanguageModel, ending: str, begins: str) -> None:
    text = planned(thinking_model(model, ending), tools=TOOLS)
    chunks = driven(model, text, f"{begins}I {{ think</think>\n\n{CALL}")
    assert "".join(chunk.thinking for chunk in chunks) == "".join(text.thinking) == "I { think"
    assert "".join(chunk.text for chunk in chunks) == "".join(text.written) == ""
    assert [(call.name, call.arguments) for call in chunks[-1].tool_calls] == [("f", {"a": 3})]
    assert text.finish == "tool_calls"


def test_a_schema_binds_the_answer_and_not_the_thinking(model: LanguageModel) -> None:
    schema = {"type": "object", "properties": {"a": {"const": 3}}, "required": ["a"], "additionalProperties": False}
    text = planned(thinking_model(model, "<think>\n"), json_schema=schema)
    chunks = driven(model, text, "Not JSON</think>and nor is this, as one would think")
    assert "".join(chunk.thinking for chunk in chunks) == "Not JSON"
    assert json.loads("".join(text.written)) == {"a": 3}


def test_a_bound_text_does_not_end_while_the_model_thinks(model: LanguageModel) -> None:
    text = planned(thinking_model(model, "<think>\n"), json_schema={"const": 1})
    assert driven(model, text, "")[-1].finish_reason == "length"
    assert len(text.ids) == 200


def test_what_is_only_thinking_has_no_answer(model: LanguageModel) -> None:
    text = planned(thinking_model(model, "<think>\n"))
    driven(model, text, "on and on")
    assert ("".join(text.thinking), "".join(text.written), text.finish) == ("on and on", "", "stop")


@pytest.mark.parametrize("stream", [False, True])
def test_generate_tells_the_thinking_about_an_answer_to_messages(model: LanguageModel, stream: bool) -> None:
    thinking = thinking_model(model, "<think>\n")
    asked = [{"role": "user", "content": "hi"}]
    if stream:
        chunks = thinking.generate(asked, stream=True, temperature=0.0, max_tokens=8)
        thought = "".join(chunk.thinking for chunk in chunks)
        result = chunks.result
        assert result.thinking == thought
    else:
        result = thinking.generate(asked, temperature=0.0, max_tokens=8)
    assert isinstance(result, Generation)
    written = model.tokenizer.decode(result.token_ids, skip_special=False)
    assert result.thinking
    assert result.thinking in written
    assert result.text == ""


def test_a_text_that_is_continued_stays_whole(model: LanguageModel) -> None:
    result = thinking_model(model, "<think>\n").generate("hi<think>", temperature=0.0, max_tokens=8)
    assert (result.thinking, result.text) == ("", model.generate("hi<think>", temperature=0.0, max_tokens=8).text)
