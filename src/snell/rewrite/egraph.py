"""The adapter to egglog 13.2.0: the only module that touches it, always through raw program text.

An `EGraph` holds a loaded program (sorts, functions, rules).  Each region is inserted between `begin` and `end`, so the
rules are parsed once.  `step` runs one iteration and `rows` returns the tables, subsumed rows included: those must stay
extractable, subsumption only stops matching.  An `EGraph` belongs to the thread that made it.

The extension module is loaded by its file, without the parent package: importing `egglog` itself costs 250 ms, the
extension alone 20 to 30.  It is registered under its usual name, since it can be initialised only once in a process.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any

from snell.errors import CompileError

if TYPE_CHECKING:
    from egglog import bindings

__all__ = ["EGraph", "EGraphError", "Row", "Step", "Value"]

VERSION = "13.2.0"
_MODULE = "egglog.bindings"

Value = Any  # An opaque handle: hashable, comparable with `<`, meaningful only to the EGraph that gave it.


class EGraphError(CompileError):
    """egglog refused a program or a rule asserted unequal facts of one class: a defect of a rule, worth a report."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one iteration did: matches per rule, whether anything changed, rows by table afterwards."""

    matches: Mapping[str, int]
    changed: bool
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: arguments and value."""

    inputs: list[Value]
    output: Value


class EGraph:
    """An e-graph with its program loaded."""

    def __init__(self, program: str) -> None:
        self._egraph: bindings.EGraph = _load_bindings().EGraph()
        _ALIVE.add(self)
        self._open = False
        self._run(program)

    def begin(self, facts: str) -> None:
        """Start a region: forget the previous one and insert these facts."""
        self.end()
        self._open = True
        self._run("(push)")
        self._run(facts)

    def end(self) -> None:
        """Forget the region, keep the program."""
        if self._open:
            self._open = False
            self._run("(pop)")

    def step(self, schedule: str) -> Step:
        """Run a schedule once."""
        report, sizes = self._run(f"(run-schedule {schedule})(print-size)")
        matches: dict[str, int] = report.report.num_matches_per_rule
        return Step(matches, bool(report.report.updated), dict(sizes.sizes))

    def rows(self, tables: tuple[str, ...]) -> dict[str, list[Row]]:
        """The rows of the tables that exist."""
        functions = self._egraph.freeze().functions
        return {name: [Row(r.inputs, r.output) for r in functions[name].rows] for name in tables if name in functions}

    def integer(self, value: Value) -> int:
        return self._egraph.value_to_i64(value)

    def fraction(self, value: Value) -> Fraction:
        return self._egraph.value_to_bigrat(value)

    def integers(self, value: Value) -> frozenset[int]:
        """A set of i64."""
        return frozenset(self._egraph.value_to_i64(item) for item in self._egraph.value_to_set(value))

    def leak(self) -> None:
        """Never free the e-graph, not even when the process ends."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._egraph))

    def _run(self, program: str) -> list[Any]:
        try:
            return self._egraph.run_program(*self._egraph.parse_program(program))
        except _load_bindings().EggSmolError as error:
            raise EGraphError(f"egglog: {error}") from error


# What a forked child inherits and may not touch.
_ALIVE: weakref.WeakSet[EGraph] = weakref.WeakSet()
_INHERITED = f"{_MODULE} of the parent process"


def _load_bindings() -> ModuleType:
    """The extension module alone, loaded on first use."""
    loaded = sys.modules.get(_MODULE)
    if loaded is not None:
        return loaded
    inherited = sys.modules.get(_INHERITED)
    if inherited is not None and inherited.__file__ is not None:
        with tempfile.TemporaryDirectory(prefix="snell-") as folder:
            # A loaded library does not need its file any more.
            return _load(importlib.util.spec_from_file_location(_MODULE, shutil.copy(inherited.__file__, folder)))
    parent = importlib.machinery.PathFinder.find_spec("egglog")
    places = None if parent is None else parent.submodule_search_locations
    return _load(importlib.machinery.PathFinder.find_spec(_MODULE, places) if places else None)


def _load(spec: importlib.machinery.ModuleSpec | None) -> ModuleType:
    if spec is None or spec.loader is None:
        raise CompileError(f"egglog {VERSION} is not installed; install snell with its dependencies")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[_MODULE] = module
    return module


def _after_fork() -> None:
    """In a forked child: leave the extension alone, and load a second copy of it when it is needed.

    The extension starts threads when it is loaded, which a child does not have: it would wait for them forever, even
    when an e-graph is freed.  A copy of the library under another name has variables, and so threads, of its own.
    """
    loaded = sys.modules.pop(_MODULE, None)
    if loaded is not None:
        sys.modules[_INHERITED] = loaded
    for egraph in _ALIVE:
        egraph.leak()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
