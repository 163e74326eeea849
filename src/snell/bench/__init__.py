"""Measurements of snell beside its peers: cases, suites, worker processes, and the runner that interleaves them."""

from snell.bench.cases import Case, parse_case
from snell.bench.implementations import Chosen, Implementation, choose
from snell.bench.measurement import Measured, Missing, Origin, Outcome, json_line
from snell.bench.origin import origin
from snell.bench.runner import Options, run
from snell.bench.suites import SUITES, suite
from snell.bench.text import JudgedText
from snell.runtime.limits import MachineLimits, machine_limits

__all__ = [
    "SUITES",
    "Case",
    "Chosen",
    "Implementation",
    "JudgedText",
    "MachineLimits",
    "Measured",
    "Missing",
    "Options",
    "Origin",
    "Outcome",
    "choose",
    "json_line",
    "machine_limits",
    "origin",
    "parse_case",
    "run",
    "suite",
]
