"""``snell run MODEL PROMPT``: one answer, written as it is generated."""

import json
from typing import Annotated, Any

import typer

from snell.cli.compiling import compile_bar
from snell.cli.console import errors, output
from snell.cli.generation import sampling, write_chunks
from snell.cli.models_folder import model_path
from snell.cli.options import Context, MaxTokens, MinP, Model, Offline, Seed, Temperature, Threads, TopK, TopP
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
    seed: Seed = None,
    offline: Offline = False,
    threads: Threads = None,
    context: Context = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead of text.")] = False,
) -> None:
    """Answer one prompt with a language model."""
    config = Config.from_environment(process_environment())
    path = model_path(model, config, offline=offline)
    options = sampling(max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    with compile_bar(errors) as progress:
        language_model = load(path, context=context, threads=threads or config.threads, progress=progress)
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
    errors.print()


def _fields(generation: Any) -> dict[str, Any]:
    return {
        "text": generation.text,
        "token_ids": list(generation.token_ids),
        "finish_reason": generation.finish_reason,
    }
