"""``snell chat MODEL``: a conversation; /help lists what it understands, an empty line or the end of the input leaves it."""

import contextlib
import sys
from typing import Annotated, Any

import typer
from rich.markup import escape

from snell.cli.compiling import compile_bar
from snell.cli.console import errors
from snell.cli.conversation import Conversation
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
from snell.errors import ContextLengthError, SnellError, UnsupportedError
from snell.llm import load

with contextlib.suppress(ImportError):  # Windows has none
    import readline  # noqa: F401  # gives input() its line editing and its history

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
    typical_p: TypicalP = None,
    repetition_penalty: RepetitionPenalty = None,
    frequency_penalty: FrequencyPenalty = None,
    presence_penalty: PresencePenalty = None,
    seed: Seed = None,
    offline: Offline = False,
    threads: Threads = None,
    context: Context = None,
    kv_dtype: KVDtype = "f16",
) -> None:
    """Talk with a language model."""
    options = sampling(
        max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p,
        repetition_penalty=repetition_penalty, frequency_penalty=frequency_penalty, presence_penalty=presence_penalty,
        seed=seed,
    )  # fmt: skip
    language_model = _loaded(model, offline=offline, threads=threads, context=context, kv_dtype=kv_dtype)
    conversation = Conversation(system)
    errors.print("/help lists the commands; an empty line ends the conversation.", style="dim")
    while not conversation.over and (line := _line()):
        try:
            if line.startswith("/"):
                errors.print(escape(conversation.command(line)), style="dim")
            else:
                _answer(language_model, conversation, line, options)
        except (SnellError, OSError) as error:
            # A slip of the keyboard must not end the conversation.
            errors.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)


def _loaded(model: str, *, offline: bool, threads: int | None, context: int | None, kv_dtype: str) -> Any:
    config = Config.from_environment(process_environment())
    path = model_path(model, config, offline=offline)
    with compile_bar(errors) as progress:
        language_model = load(
            path, context=context, threads=threads or config.threads, kv_dtype=kv_dtype, progress=progress
        )
        if not language_model.has_chat_template:
            raise UnsupportedError(
                f"{model} has no chat template, so it cannot hold a conversation; use `snell run --raw`"
            )
        language_model.prepare()
    return language_model


def _answer(language_model: Any, conversation: Conversation, question: str, options: dict[str, Any]) -> None:
    """One turn; Ctrl-C ends the answer, and what was said of it stays."""
    conversation.ask(question)
    try:
        stream = language_model.generate(conversation.messages, stream=True, **options)
    except ContextLengthError as error:
        conversation.take_back()
        raise ContextLengthError(f"{error}; or begin anew with /reset") from error
    except SnellError:
        conversation.take_back()
        raise
    try:
        write_chunks(stream)
    except KeyboardInterrupt:
        errors.print("\n(interrupted)", style="dim")
    result = stream.result
    conversation.answer(result.text)
    rate = result.timings.decode_tokens_per_second
    read = f"{result.usage.prompt_tokens} tokens read in {result.timings.prefill_seconds:.2f} s"
    errors.print(f"{result.usage.completion_tokens} tokens, {rate:.1f} tok/s; {read}", style="dim")


def _line() -> str:
    try:
        # readline must know the prompt, or it is lost when a line of the history is brought back.
        asked = input("> ") if sys.stdin.isatty() and sys.stdout.isatty() else errors.input("> ")
    except EOFError:
        return ""
    return asked.strip()
