"""``snell models list|install|remove``: the models that have a short name."""

from typing import Annotated

import typer
from rich.table import Table

from snell.cli.console import errors, output
from snell.cli.models_folder import install as install_model
from snell.cli.models_folder import model_store
from snell.cli.options import Offline
from snell.config import Config, process_environment
from snell.store import CATALOGUE

__all__ = ["app"]

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="List, install or remove models that have a short name."
)
Name = Annotated[str, typer.Argument(help=f"One of {', '.join(CATALOGUE)}.")]


@app.command("list")
def list_models() -> None:
    """List the models, and which are installed."""
    store = model_store(Config.from_environment(process_environment()))
    table = Table("name", "model", "licence", "MB", "installed", box=None, pad_edge=False)
    for entry in CATALOGUE.values():
        installed = "yes" if store.find(entry.name) else "no"
        table.add_row(entry.name, entry.description, entry.licence, f"{entry.size_bytes / 1e6:.0f}", installed)
    output.print(table)


@app.command()
def install(name: Name, offline: Offline = False) -> None:
    """Install a model, if it is not."""
    path = install_model(name, Config.from_environment(process_environment()), offline=offline)
    output.out(str(path), highlight=False)


@app.command()
def remove(name: Name) -> None:
    """Delete an installed model."""
    removed = model_store(Config.from_environment(process_environment())).remove(name)
    errors.print(f"{name} was removed" if removed else f"{name} was not installed")
