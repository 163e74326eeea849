"""``snell chat MODEL``: a conversation; an empty line or the end of the input leaves it."""

from typing import Annotated

import typer

from snell.cli.compiling import compile_bar
from snell.cli.console import errors
from snell.cli.generation import sampling, write_chunks
from snell.cli.models_folder import model_path
from snell.cli.options import Context, MaxTokens, MinP, Model, Offline, Seed, Temperature, Threads, TopK, TopP
from snell.config import Config, process_environment
from snell.errors import UnsupportedError
from snell.llm import load

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def chat(
    model: Model,
    system: Annotated[str | None, typer.Option(help="A system message to begin with.")] = None,
    max_tokens: MaxTokens = 512,
    temperature: Temperature = 0.0,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = None,
    offline: Offline = False,
    threads: Threads = None,
    context: Context = None,
) -> None:
    """Talk with a language model."""
    config = Config.from_environment(process_environment())
    path = model_path(model, config, offline=offline)
    with compile_bar(errors) as progress:
        language_model = load(path, context=context, threads=threads or config.threads, progress=progress)
        if not language_model.has_chat_template:
            raise UnsupportedError(
                f"{model} has no chat template, so it cannot hold a conversation; use `snell run --raw`"
            )
        language_model.prepare()
    options = sampling(max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    messages = [{"role": "system", "content": system}] if system else []
    errors.print("An empty line ends the conversation.", style="dim")
    while asked := _ask():
        messages.append({"role": "user", "content": asked})
        answer = write_chunks(language_model.generate(messages, stream=True, **options))
        messages.append({"role": "assistant", "content": answer})


def _ask() -> str:
    try:
        return errors.input("[bold]> [/bold]").strip()
    except EOFError:
        return ""
