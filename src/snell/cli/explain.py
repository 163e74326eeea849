"""``snell explain MODEL``: what a model, or a program saved by ``f.save``, was compiled to."""

from pathlib import Path
from typing import Annotated

import typer

import snell as sn
from snell.cli.console import errors, output
from snell.cli.models_folder import model_path
from snell.cli.options import Model, Offline, Threads
from snell.config import Config, process_environment

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def explain(
    model: Model,
    html: Annotated[Path | None, typer.Option(help="Write the report as HTML to this file.")] = None,
    offline: Offline = False,
    threads: Threads = None,
) -> None:
    """Show what a model was compiled to."""
    config = Config.from_environment(process_environment())
    path = model_path(model, config, offline=offline)
    if path.suffix == ".snell":
        report = sn.load(path).explain()
    else:
        report = sn.llm.load(path, threads=threads or config.threads).explain()
    if html is None:
        output.out(str(report), highlight=False)
        return
    report.to_html(html)
    errors.print(f"wrote {html}")
