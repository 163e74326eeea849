"""``snell serve MODEL``: an HTTP server with OpenAI's interface; the packages it needs are the extra ``serve``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snell.cli.compiling import compile_bar
from snell.cli.console import errors
from snell.cli.models_folder import model_path
from snell.cli.options import Context, KVDtype, Model, Offline, Threads
from snell.config import Config, process_environment
from snell.deferred import deferred
from snell.errors import ConfigError, UnsupportedError
from snell.llm import load

if TYPE_CHECKING:
    from snell.llm import server, serving
else:
    server = deferred("snell.llm.server")
    serving = deferred("snell.llm.serving")

__all__ = ["app"]

app = typer.Typer(add_completion=False)

_MIB = 2**20


@app.command()
def serve(
    model: Model,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 is every one of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    api_key_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="File with a key that clients must send.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The model's name to clients; by default as given here.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Texts that are generated at once.")] = 4,
    queue: Annotated[int, typer.Option(min=1, help="Texts that may wait; more are refused with 429.")] = 64,
    cache_memory: Annotated[
        int | None, typer.Option(min=1, help="MiB for the caches of texts; by default a context for each at once.")
    ] = None,
    request_seconds: Annotated[float, typer.Option(min=1, help="A request may take so long.")] = 600.0,
    offline: Offline = False,
    threads: Threads = None,
    context: Context = None,
    kv_dtype: KVDtype = "f16",
) -> None:
    """Serve a language model over HTTP."""
    config = Config.from_environment(process_environment())
    path = model_path(model, config, offline=offline)
    try:
        settings = server.Settings(
            name or (Path(model).name if Path(model).exists() else model),
            None if api_key_file is None else _key(api_key_file),
            request_seconds=request_seconds,
        )
    except ModuleNotFoundError as error:
        raise UnsupportedError(f"serving needs {error.name}; install snell with the extra: snell[serve]") from error
    with compile_bar(errors) as progress:
        opened = load(path, context, threads or config.threads, kv_dtype, progress=progress)
        memory = None if cache_memory is None else cache_memory * _MIB
        service = server.Service(opened, settings, serving.Limits(places=parallel, waiting=queue), memory)
    listener = server.Listener(server.application(service), host, port, request_seconds)
    errors.print(f"serving {settings.name} at {listener.url}", markup=False, highlight=False, soft_wrap=True)
    listener.run()


def _key(file: Path) -> str:
    """The key in a file; on the command line every user of the machine could read it."""
    key = file.read_text(encoding="utf-8").strip()
    if not key:
        raise ConfigError(f"--api-key-file: expected a key, received an empty file {file}")
    return key
