"""``snell info``: the version, the machine and the folders in use; paste it into a report of a defect."""

import platform
from importlib.metadata import PackageNotFoundError, version

import typer
from rich.table import Table

from snell import __version__
from snell.cli.console import output
from snell.config import Config, available_threads, process_environment

__all__ = ["app"]

app = typer.Typer(add_completion=False)

_PACKAGES = ("numpy", "llvmlite", "egglog", "opt_einsum", "ml_dtypes", "safetensors", "tokenizers")


@app.command()
def info() -> None:
    """Show the version, the machine and the folders in use."""
    config = Config.from_environment(process_environment())
    threads = available_threads()
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("snell", __version__)
    table.add_row("Python", f"{platform.python_version()} ({platform.python_implementation()})")
    table.add_row("system", f"{platform.system()} {platform.release()} {platform.machine()}")
    table.add_row("threads", f"{config.threads or threads} of {threads} allowed")
    table.add_row("cache", f"{config.cache_dir} (at most {config.cache_limit_bytes / 2**30:.1f} GiB)")
    table.add_row("models", str(config.data_dir / "models"))
    table.add_row("packages", ", ".join(f"{name} {_version(name)}" for name in _PACKAGES))
    output.print(table)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "is missing"
