"""What a program was compiled to, for reading: as text, as a table of rules, as a page."""

from snell.engine.report.report import KernelReport, Report, report_of

__all__ = ["KernelReport", "Report", "report_of"]
