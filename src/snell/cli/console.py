"""Where the command writes: results to standard output, everything else to standard error."""

from rich.console import Console

__all__ = ["errors", "output"]

output = Console(highlight=False)
errors = Console(stderr=True, highlight=False)
