"""``snell serve MODEL``: an HTTP server; not in this version, and it says so."""

import typer

from snell.cli.options import Model
from snell.errors import UnsupportedError

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def serve(model: Model) -> None:
    """Serve a language model over HTTP (comes later)."""
    raise UnsupportedError(
        f"`snell serve {model}` is not in this version; use `snell run`, `snell chat`, or snell.llm.load in Python"
    )
