"""``snell explain MODEL``: what a model, or a program saved by ``f.save``, was compiled to; and the rules of rewriting."""

from pathlib import Path
from typing import Annotated

import typer

import snell as sn
from snell.cli.console import errors, output
from snell.cli.models_folder import model_path
from snell.cli.options import KVDtype, Offline, Threads
from snell.config import Config, process_environment
from snell.engine.report import Report
from snell.engine.report.rules import all_rules, rule_table
from snell.errors import ConfigError

__all__ = ["app"]

app = typer.Typer(add_completion=False)


@app.command()
def explain(
    model: Annotated[str | None, typer.Argument(help="A path, or a short name.")] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Show the rules that shaped the model; without one, all there are.")
    ] = False,
    llvm: Annotated[bool, typer.Option("--llvm", help="Show the LLVM IR of every kernel, too.")] = False,
    asm: Annotated[bool, typer.Option("--asm", help="Show the machine code of every kernel, too.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page that shows it all; measures each kernel."),
    ] = None,
    offline: Offline = False,
    threads: Threads = None,
    kv_dtype: KVDtype = "f16",
) -> None:
    """Show what a model was compiled to."""
    if model is None:
        if not rules:
            raise ConfigError("expected a MODEL to explain, or --rules to list all rules of rewriting")
        output.out(all_rules(), highlight=False)
        return
    report = _report(model, offline, threads, kv_dtype)
    if html is not None:
        report.to_html(html)
        errors.print(f"wrote {html}", highlight=False)
        return
    if rules:
        output.out(rule_table(report.rules), highlight=False)
        return
    output.out(str(report), highlight=False)
    for kernel in report.kernels if llvm or asm else ():
        output.out(f"\nkernel {kernel.name}", highlight=False)
        if llvm:
            output.out(kernel.llvm_ir, highlight=False)
        if asm:
            output.out(kernel.assembly, highlight=False)


def _report(model: str, offline: bool, threads: int | None, kv_dtype: str) -> Report:
    config = Config.from_environment(process_environment())
    path = model_path(model, config, offline=offline)
    if path.suffix == ".snell":
        return sn.load(path).explain()
    return sn.llm.load(path, threads=threads or config.threads, kv_dtype=kv_dtype).explain()
