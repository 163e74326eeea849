"""``snell run MODEL PROMPT``: one answer, written as it is generated."""

import json
from typing import Annotated, Any

import typer

from snell.cli.compiling import compile_bar
from snell.cli.console import errors, output
from snell.cli.generation import sampling, write_chunks
from snell.cli.models_folder import model_path
from snell.cli.options import (
    Context,
    FrequencyPenalty,
    KVDtype,
    MaxTokens,
    MinP,
    Model,
    Offline,
    PresencePenalty,
    RepetitionPenalty,
    Seed,
    Temperature,
    Threads,
    TopK,
    TopP,
    TypicalP,
)
from snell.config import Config, process_environment
from snell.llm import load

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def run(
    model: Model,
    prompt: Annotated[str, typer.Argument(help="What to say to the model, or with --raw the text to continue.")],
    raw: Annotated[bool, typer.Option(help="Continue the text as it is, without the chat template.")] = False,
    max_tokens: MaxTokens = 512,
    temperature: Temperature = 0.0,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    typical_p: TypicalP = None,
    repetition_penalty: RepetitionPenalty = None,
    frequency_penalty: FrequencyPenalty = None,
    presence_penalty: PresencePenalty = None,
    seed: Seed = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be given several times.")] = None,
    json_schema: Annotated[
        typer.FileText | None, typer.Option(help="Answer in JSON of the schema in this file (- for the input).")
    ] = None,
    grammar: Annotated[
        typer.FileText | None, typer.Option(help="Answer in the language of the Lark grammar in this file.")
    ] = None,
    offline: Offline = False,
    threads: Threads = None,
    context: Context = None,
    kv_dtype: KVDtype = "f16",
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead of text.")] = False,
) -> None:
    """Answer one prompt with a language model."""
    config = Config.from_environment(process_environment())
    path = model_path(model, config, offline=offline)
    options = sampling(
        max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p,
        repetition_penalty=repetition_penalty, frequency_penalty=frequency_penalty, presence_penalty=presence_penalty,
        seed=seed, stop=stop or None, json_schema=json_schema and json_schema.read(), grammar=grammar and grammar.read(),
    )  # fmt: skip
    with compile_bar(errors) as progress:
        language_model = load(
            path, context=context, threads=threads or config.threads, kv_dtype=kv_dtype, progress=progress
        )
        asked: str | list[dict[str, str]] = prompt
        if not raw and language_model.has_chat_template:
            asked = [{"role": "user", "content": prompt}]
        # Wrong options are told before anything is compiled, and nothing is compiled in the middle of the text.
        stream = language_model.generate(asked, stream=True, **options)
        language_model.prepare()
    if as_json:
        for _ in stream:
            pass
        output.out(json.dumps(_fields(stream.result)), highlight=False)
        return
    write_chunks(stream)


def _fields(generation: Any) -> dict[str, Any]:
    return {
        "text": generation.text,
        "thinking": generation.thinking,
        "token_ids": list(generation.token_ids),
        "finish_reason": generation.finish_reason,
        "usage": {
            "prompt_tokens": generation.usage.prompt_tokens,
            "completion_tokens": generation.usage.completion_tokens,
            "total_tokens": generation.usage.total_tokens,
        },
        "timings": {
            "prefill_seconds": generation.timings.prefill_seconds,
            "decode_seconds": generation.timings.decode_seconds,
            "decode_tokens_per_second": generation.timings.decode_tokens_per_second,
        },
    }
