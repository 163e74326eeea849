"""``snell explain MODEL``: what a model, or a program saved by ``f.save``, was compiled to."""

from typing import Annotated

import typer

import snell as sn
from snell.cli.console import output
from snell.cli.models_folder import model_path
from snell.cli.options import Model, Offline, Threads
from snell.config import Config, process_environment

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def explain(
    model: Model,
    llvm: Annotated[bool, typer.Option("--llvm", help="Show the LLVM IR of every kernel, too.")] = False,
    asm: Annotated[bool, typer.Option("--asm", help="Show the machine code of every kernel, too.")] = False,
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
    output.out(str(report), highlight=False)
    for kernel in report.kernels if llvm or asm else ():
        output.out(f"\nkernel {kernel.name}", highlight=False)
        if llvm:
            output.out(kernel.llvm_ir, highlight=False)
        if asm:
            output.out(kernel.assembly, highlight=False)
