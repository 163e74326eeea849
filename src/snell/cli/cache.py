"""``snell cache info|clear|export|import``: the folder of compiled code and records."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from snell.cli import cache_archive
from snell.cli.console import errors, output
from snell.config import Config, process_environment

__all__ = ["app"]

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Inspect, empty, export or import the cache of compiled code."
)
Archive = Annotated[Path, typer.Argument(help="The archive, a .tar file.")]


def _config() -> Config:
    return Config.from_environment(process_environment())


@app.command()
def info() -> None:
    """Show where the cache is and what it holds."""
    config = _config()
    table = Table("part", "files", "MiB", box=None, pad_edge=False)
    for part, files, size in cache_archive.contents(config.cache_dir):
        table.add_row(part, str(files), f"{size / 2**20:.1f}")
    output.print(f"{config.cache_dir}, at most {config.cache_limit_bytes / 2**30:.1f} GiB")
    output.print(table)


@app.command()
def clear() -> None:
    """Delete everything in the cache; programs are compiled and searched again when they are next needed."""
    files = cache_archive.clear(_config().cache_dir)
    errors.print(f"deleted {files} files")


@app.command("export")
def export_cache(archive: Archive) -> None:
    """Write the cache to one file, for another machine of the same kind."""
    files = cache_archive.export(_config().cache_dir, archive)
    errors.print(f"wrote {files} files to {archive}")


@app.command("import")
def import_cache(archive: Archive) -> None:
    """Add the contents of an exported file; what the cache already has is kept."""
    files = cache_archive.import_(_config().cache_dir, archive)
    errors.print(f"added {files} files")
