"""``snell tune MODEL``: a search for faster schedules; not in this version, and it says so."""

from typing import Annotated

import typer

from snell.cli.options import Model
from snell.errors import UnsupportedError

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def tune(model: Model, budget: Annotated[str, typer.Option(help="How long to search, such as 60s.")] = "60s") -> None:
    """Search for faster schedules of a model (comes later)."""
    raise UnsupportedError(
        f"`snell tune {model} --budget {budget}` is not in this version; programs run with the default schedules"
    )
