"""Measurements of snell beside its peers: cases, suites, worker processes, and the runner that interleaves them."""

from snell.bench.cases import Case, parse_case
from snell.bench.implementations import Chosen, Implementation, choose
from snell.bench.measurement import Measured, Missing, Outcome, json_line
from snell.bench.runner import Options, run
from snell.bench.suites import SUITES, suite
from snell.runtime.limits import MachineLimits, machine_limits

__all__ = [
    "SUITES",
    "Case",
    "Chosen",
    "Implementation",
    "MachineLimits",
    "Measured",
    "Missing",
    "Options",
    "Outcome",
    "choose",
    "json_line",
    "machine_limits",
    "parse_case",
    "run",
    "suite",
]
