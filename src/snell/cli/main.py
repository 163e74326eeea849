"""The entry point: registers the commands and turns an error of snell into one clear line.

``snell --help`` and ``--version`` must not wait for the compiler or for model code, so a command's module is imported
when that command runs, and what writes in colours when there is something to write.
"""

import importlib
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from snell import __version__
from snell.deferred import deferred
from snell.errors import SnellError

if TYPE_CHECKING:
    from snell.cli import console
else:
    console = deferred("snell.cli.console")

__all__ = ["app"]

# Command -> what --help says of it. The module of the same name holds a typer application `app`.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "Answer one prompt with a language model.",
        "chat": "Talk with a language model.",
        "serve": "Serve a language model over HTTP.",
        "tune": "Search for faster schedules of a model.",
        "explain": "Show what a model was compiled to.",
        "bench": "Measure snell beside the installed peers.",
        "cache": "Inspect, empty, export or import the cache of compiled code.",
        "models": "List, install or remove models that have a short name.",
        "info": "Show the version, the machine and the folders in use.",
    }
)


# What a shell reports of a program that SIGINT ended: 128 + 2.
INTERRUPTED = 130


def _printable(text: str) -> str:
    """Arguments that are no UTF-8 arrive as lone surrogates, which no terminal can be sent."""
    return text.encode(errors="replace").decode()


def _show_warning(message: Warning | str, *_: object) -> None:
    console.errors.print("[yellow]warning:[/yellow] ", end="")
    console.errors.print(_printable(str(message)), markup=False, soft_wrap=True)


class CommandGroup(TyperGroup):
    """The commands, loaded when one is run; their errors, shown without a traceback."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            module = importlib.import_module(f"snell.cli.{args[0]}")
            self.commands[args[0]] = typer.main.get_command(module.app)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            console.errors.print("interrupted")
            raise typer.Exit(INTERRUPTED) from interrupt
        except (SnellError, OSError) as error:
            # A reader that went away (`| head`) is no error to speak of.
            if ctx.params["debug"] or isinstance(error, BrokenPipeError):
                raise
            console.errors.print(f"[red]error:[/red] {type(error).__name__}: ", end="")
            console.errors.print(_printable(str(error)), markup=False, soft_wrap=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Run, measure and inspect deep-learning programs on the path of least time.",
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command; ``debug`` is read where errors are shown."""


def _not_loaded() -> None:
    """Stands for a command until it is run: ``--help`` needs only its name and its line."""


for _name, _line in COMMANDS.items():
    app.command(_name, help=_line)(_not_loaded)
