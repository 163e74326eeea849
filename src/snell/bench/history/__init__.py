"""Runs that were written down: read again, as tables and plots, put into a page of the documentation."""

from snell.bench.history.document import write_report
from snell.bench.history.line import Line, read_lines

__all__ = ["Line", "read_lines", "write_report"]
