"""``snell models [list|install|remove]``: the models that have a short name, and what is installed."""

from typing import Annotated

import typer
from rich.table import Column, Table

from snell.cli.console import errors, output
from snell.cli.models_folder import install as install_model
from snell.cli.models_folder import model_store
from snell.cli.options import Offline
from snell.config import Config, process_environment
from snell.store import CATALOGUE

__all__ = ["app"]

app = typer.Typer(add_completion=False, help="List, install or remove models that have a short name.")
Name = Annotated[str, typer.Argument(help=f"One of {', '.join(CATALOGUE)}.")]


@app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List what is installed, if nothing else is asked for."""
    if context.invoked_subcommand is None:
        list_models()


@app.command("list")
def list_models() -> None:
    """List the models with a short name, where those that are installed lie, and other model files beside them."""
    store = model_store(Config.from_environment(process_environment()))
    installed = {found.entry.name: found.path for found in store.installed()}
    table = Table(
        "name", "model", "licence", "MB", Column("package", overflow="fold"), "installed", box=None, pad_edge=False
    )
    for entry in CATALOGUE.values():
        path = installed.get(entry.name)
        package = entry.packages[0].partition("==")[0]
        size = f"{entry.size_bytes / 1e6:.0f}"
        table.add_row(entry.name, entry.description, entry.licence, size, package, "yes" if path else "no")
    for path in store.other_files():
        table.add_row("", path.name, "", f"{path.stat().st_size / 1e6:.0f}", "", "yes")
    output.print(table)
    for path in [*installed.values(), *store.other_files()]:
        output.out(str(path), highlight=False)


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
