"""The engine: settings, caches and the one lock under which programs are compiled.

An engine compiles graphs into executables.  Programs are found again by structure: in memory within a process, and in
the cache folder by the next process, which then lowers and compiles nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from snell.codegen.host import host_signature, host_target
from snell.config import Config, SearchBudget, available_threads
from snell.deferred import deferred
from snell.engine.version import code_version
from snell.errors import FileFormatError
from snell.locks import Lock
from snell.rewrite.policy import Policy
from snell.runtime.binding import Assembled, bind
from snell.runtime.cache import Cache, Compiler, compile_cached
from snell.runtime.executable import Executable
from snell.runtime.ledger import Ledger
from snell.runtime.packed import MODELS, PackedWeights
from snell.runtime.pool import Pool, pool_code, process_pool
from snell.runtime.program import Program, from_bytes, to_bytes
from snell.targets import Target

# What a process needs only where a program is not found in the cache: most never do.
if TYPE_CHECKING:
    from snell.compiler import compile as compiler
    from snell.compiler.compile import Compilation
    from snell.engine import report, tuning
    from snell.engine.report import Report
    from snell.graph import fingerprint
    from snell.graph.node import Graph
    from snell.runtime.kernels import Progress
    from snell.search import curves, groupings, records
    from snell.search.curves import Curves
    from snell.search.groupings import Groupings
    from snell.search.records import Records
    from snell.search.tuning import Progress as TuningProgress
    from snell.search.tuning import Tuning
else:
    compiler = deferred("snell.compiler.compile")
    curves = deferred("snell.search.curves")
    fingerprint = deferred("snell.graph.fingerprint")
    groupings = deferred("snell.search.groupings")
    report = deferred("snell.engine.report")
    records = deferred("snell.search.records")
    tuning = deferred("snell.engine.tuning")

__all__ = ["Engine", "Prepared", "pack", "unpack"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program ready to bind, and the names of its outputs in the order of the executable's results."""

    assembled: Assembled
    outputs: tuple[str, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.assembled.inputs

    @property
    def frozen(self) -> tuple[str, ...]:
        return self.assembled.frozen

    def bind(self, frozen: Mapping[str, Any], pool: Pool, packed: MutableMapping[str, Any] | None = None) -> Executable:
        """The executable with these weights; programs on the same weights share what is `packed`."""
        return bind(self.assembled, frozen, pool, packed)


@dataclass(slots=True, weakref_slot=True)
class Engine:
    """Compiles for one machine under one configuration; safe to use from several threads."""

    config: Config
    programs: dict[str, Prepared] = field(default_factory=dict[str, Prepared])
    lock: Lock = field(default_factory=Lock)
    # One object for the engine's life: it knows the folder's size, and that it has warned.
    cache: Cache = field(init=False)
    ledger: Ledger = field(init=False)
    packed: PackedWeights = field(init=False)

    def __post_init__(self) -> None:
        self.cache = Cache(self.config.cache_dir / "objects", self.config.cache_limit_bytes)
        self.packed = PackedWeights(Cache(self.config.cache_dir / MODELS, self.config.cache_limit_bytes, warns=False))
        self.ledger = Ledger(self.config.cache_dir / "records", self.config.cache_limit_bytes)

    @property
    def threads(self) -> int:
        return self.config.threads or available_threads()

    @property
    def records(self) -> Records:
        """What searches found."""
        return records.Records(self.ledger.folder, self.config.cache_limit_bytes)

    @property
    def groupings(self) -> Groupings:
        """What searches found about the grouping of programs."""
        return groupings.Groupings(self.ledger.folder, self.config.cache_limit_bytes)

    @property
    def curves(self) -> Curves:
        """How searches went."""
        return curves.Curves(self.ledger.folder, self.config.cache_limit_bytes)

    @property
    def target(self) -> Target:
        return host_target()

    def pool(self) -> Pool:
        """The process's threads."""
        key = f"pool\n{code_version()}\n{host_signature()}"
        return process_pool(self.config.threads, lambda: self.cache.get_or_make(key, pool_code))

    def compiler(self) -> Compiler:
        """Makes machine code, or finds it in the cache."""
        return partial(compile_cached, self.cache)

    def key(self, graph: Graph, policy: Policy) -> str:
        """What a compiled program depends on."""
        return self.named_key(fingerprint.fingerprint(graph), policy)

    def named_key(self, content: str, policy: Policy) -> str:
        """The key of a program that `content` determines: whatever else it depends on is added here."""
        parts = (code_version(), content, host_signature(), str(self.threads), policy.value)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def prepare(
        self,
        graph: Graph,
        policy: Policy = Policy.DEFAULT,
        key: str | None = None,
        progress: Progress | None = None,
        search: SearchBudget | None = None,
    ) -> Prepared:
        """The program of a graph: from memory, from the cache folder, or compiled now (one thread compiles at a time).

        ``progress`` is told of a compilation alone: the kernels compiled, of all; (0, 0) when it begins.  ``search`` (by
        default what the configuration says) is spent on schedules first, less what was spent on this program before.
        """
        key = key or self.key(graph, policy)
        with self.lock:
            wanted = self.config.search if search is None else search
            if self.ledger.owes(key, wanted):
                tuning.spend(self, graph, policy, key, wanted)
            found = self._known(key)
            if found is None:
                compilation = self.compile(graph, policy, progress)
                found = Prepared(compilation.assembled, compilation.outputs)
                self.cache.put(self._current(key), pack(found))
            self.programs[self._current(key)] = found
            return found

    def restore(self, key: str) -> Prepared | None:
        """The program under a key in memory or in the cache folder; None where there is none that is whole, or where a
        search is to come first."""
        with self.lock:
            return None if self.ledger.owes(key, self.config.search) else self._known(key)

    def _known(self, key: str) -> Prepared | None:
        current = self._current(key)
        if current in self.programs:
            return self.programs[current]
        data = self.cache.get(current)
        try:
            found = None if data is None else unpack(data)
        except FileFormatError:
            return None
        if found is not None:
            self.programs[current] = found
        return found

    def _current(self, key: str) -> str:
        """The key with what is recorded: a program made before a search is not the one made after it."""
        stamp = self.ledger.stamp()
        return f"{key} {stamp}" if stamp else key

    def compile(self, graph: Graph, policy: Policy = Policy.DEFAULT, progress: Progress | None = None) -> Compilation:
        """Run every pass (object code still comes from the cache where it is known)."""
        with self.lock:
            plans = tuning.recorded_plans(self, policy)
            grouping = tuning.recorded_grouping(self, graph, policy)
            options = compiler.Options(
                self.target, self.threads, policy, self.cache.get_or_make, progress, plans, grouping
            )
            return compiler.compile_graph(graph, options)

    def tune(
        self,
        graph: Graph,
        policy: Policy = Policy.DEFAULT,
        budget: float | None = None,
        progress: TuningProgress | None = None,
    ) -> Tuning:
        """Search for faster schedules of a graph's kernels for `budget` seconds (None: until little is to be expected).

        What is found is recorded at once, and used by every program that is prepared afterwards.
        """
        return tuning.tune_graph(self, graph, policy, budget, progress)

    def explain(self, graph: Graph, policy: Policy = Policy.DEFAULT) -> Report:
        """What a graph is compiled to, and how its searches went."""
        return report.report_of(self.compile(graph, policy), self.target, self.curves.get(self.key(graph, policy)))


def pack(prepared: Prepared) -> bytes:
    """Program and preparation as bytes: lengths, then each."""
    parts = ["\t".join(prepared.outputs).encode(), to_bytes(prepared.assembled.program)]
    if prepared.assembled.prepare is not None:
        parts.append(to_bytes(prepared.assembled.prepare))
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def unpack(data: bytes) -> Prepared:
    """What `pack` wrote; FileFormatError where a program in it is damaged, or they are other bytes."""
    parts: list[bytes] = []
    position = 0
    while position < len(data):
        length = int.from_bytes(data[position : position + 8], "little")
        parts.append(data[position + 8 : position + 8 + length])
        position += 8 + length
    if len(parts) not in (2, 3):
        raise FileFormatError(f"expected the outputs' names and one or two programs, received {len(parts)} parts")
    programs: list[Program] = [from_bytes(part) for part in parts[1:]]
    try:
        outputs = tuple(parts[0].decode().split("\t"))
    except UnicodeDecodeError as error:
        raise FileFormatError(f"expected the names of outputs: {error}") from error
    return Prepared(Assembled(programs[0], programs[1] if len(programs) > 1 else None), outputs)
