"""Tuning: a budget of seconds over the kernels of a program, spent where share of time × expected gain is largest.

Anytime: every improvement is recorded when it is found, an interrupt ends the search and keeps what it has.  A candidate
that seems to be the best is timed once more, and its worse reading counts, so that luck is not recorded.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from snell.loops.build import BuiltKernel, planned_kernel
from snell.loops.describe import describe
from snell.loops.grouping import Group
from snell.loops.plan import Plan
from snell.rewrite.cut import typical_size, typical_volume
from snell.search.candidate import Candidate, candidate_of
from snell.search.evolution import Evolution, Proposal
from snell.search.groupings import GroupingRecord
from snell.search.model import Model
from snell.search.records import Record, Records
from snell.search.reference import expected_values
from snell.search.space import Space, stage_volume
from snell.search.trial import Outcome, Subject, WrongKernelError
from snell.search.worker_process import Worker, WorkerError
from snell.symbolic import Dim
from snell.targets import Target

__all__ = ["Moment", "Progress", "TunedKernel", "Tuning", "TuningTask", "tune"]

_BATCH = 8
_WORTH = 0.98  # of the best time so far: less is noise
_HOPE, _LEAST_HOPE, _FADING = 0.3, 0.01, 0.75
_DONE = 0.012  # expected gain below which a search without budget ends
_BEGINNING = 0.4  # share of the budget that taking the first times may use

Progress = Callable[["Moment"], None]


@dataclass(frozen=True, slots=True)
class TuningTask:
    """A distinct kernel of a program: its canonical group, what the heuristics build, its calls, its record's key, and
    the names of what it writes in the program (where it is called first)."""

    group: Group
    built: BuiltKernel
    calls: float
    key: str
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the search: seconds since its beginning, candidates tried, the kernels' time over the heuristics', and
    that time of one run in seconds."""

    seconds: float
    candidates: int
    ratio: float
    run_seconds: float


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """What became of a kernel: its record's key, what it writes and does, calls, seconds by heuristics, the best ratio,
    how many candidates were tried, the reasons of rejected ones, and whether its plan did not help the whole program."""

    key: str
    writes: tuple[str, ...]
    does: str
    calls: float
    seconds: float
    ratio: float
    candidates: int
    rejected: tuple[str, ...]
    taken_back: bool = False

    @property
    def won(self) -> float:
        """Seconds that a call of the program wins by the best plan."""
        return self.calls * self.seconds * (1.0 - self.ratio)


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result: kernels, the curve of best times, the rank correlation of model and clock, whether it was interrupted,
    what is said of kernels that do not compute what their definitions say (they were not searched), the whole program's
    time over its time by heuristics on the same grouping (None where that was not measured), and what is known of the
    grouping."""

    kernels: tuple[TunedKernel, ...]
    curve: tuple[Moment, ...]
    correlation: float | None
    interrupted: bool = False
    whole: float | None = None
    wrong: tuple[str, ...] = ()
    grouping: GroupingRecord | None = None

    @property
    def ratio(self) -> float:
        """Time of the program's kernels, each alone, over what it was by heuristics; plans that were taken back left out."""
        before = sum(k.seconds * k.calls for k in self.kernels)
        return 1.0 - sum(k.won for k in self.kernels if not k.taken_back) / before if before else 1.0


@dataclass(slots=True)
class _Kernel:
    task: TuningTask
    subject: Subject
    evolution: Evolution
    seconds: float
    hope: float = _HOPE
    candidates: int = 0
    rejected: list[str] = field(default_factory=list[str])

    @property
    def gain(self) -> float:
        """Seconds that a call of the program may still win here."""
        return self.task.calls * self.seconds * self.evolution.best[0] * self.hope


def tune(
    tasks: Sequence[TuningTask],
    target: Target,
    threads: int,
    records: Records,
    *,
    budget: float | None,
    prunes: bool,
    cold_bytes: int = 0,
    progress: Progress | None = None,
) -> Tuning:
    """Search the kernels of a program for `budget` seconds (None: until little more is to be expected)."""
    with Worker(threads) as worker:
        search = _Search(target, threads, records, budget, prunes, cold_bytes, progress, worker)
        try:
            search.run(tasks)
        except KeyboardInterrupt:
            return search.result(interrupted=True)
    return search.result()


@dataclass(slots=True)
class _Search:
    target: Target
    threads: int
    records: Records
    budget: float | None
    prunes: bool
    cold_bytes: int
    progress: Progress | None
    worker: Worker
    begin: float = field(default_factory=time.monotonic)
    kernels: list[_Kernel] = field(default_factory=list[_Kernel])
    curve: list[Moment] = field(default_factory=list[Moment])
    wrong: list[str] = field(default_factory=list[str])

    def run(self, tasks: Sequence[TuningTask]) -> None:
        """Take the first times, largest kernels first; then batches where most is to be won."""
        for task in sorted(tasks, key=_work, reverse=True):
            if self._spent(_BEGINNING):
                break
            self._take(task)
        if self.kernels:
            self._tell()
        while not self._spent():
            kernel = max(self.kernels, key=lambda k: k.gain, default=None)
            if kernel is None or (self.budget is None and kernel.hope <= _DONE):
                return
            self._batch(kernel)

    def result(self, interrupted: bool = False) -> Tuning:
        """What is known now."""
        kernels = tuple(
            TunedKernel(
                k.task.key, k.task.writes, describe(k.task.group), k.task.calls, k.seconds, k.evolution.best[0],
                k.candidates, tuple(k.rejected),
            )
            for k in self.kernels
        )  # fmt: skip
        return Tuning(kernels, tuple(self.curve), self._correlation(), interrupted, wrong=tuple(self.wrong))

    def _spent(self, share: float = 1.0) -> bool:
        return self.budget is not None and time.monotonic() - self.begin > share * self.budget

    def _take(self, task: TuningTask) -> None:
        space = Space(task.group, self.target)
        if space.is_empty:
            return
        first = candidate_of(task.built)
        subject = _subject(task, first, self.cold_bytes)
        try:
            seconds = self.worker.begin(subject)
        except WrongKernelError as error:
            self._tell_wrong(task, error)
            return
        except WorkerError:
            return  # too large to hold, or it takes data that random numbers are none of
        model = Model(space.stages, task.group, self.target, self.threads)

        def build(plan: Plan) -> Candidate:
            return candidate_of(planned_kernel(task.group, self.target, self.threads, plan, prunes=self.prunes))

        evolution = Evolution(space, model, build, first, task.key)
        known = self.records.get(task.key)
        if known is not None:
            evolution.best = (known.ratio, known.plan)
        self.kernels.append(_Kernel(task, subject, evolution, seconds))

    def _tell_wrong(self, task: TuningTask, error: WrongKernelError) -> None:
        """A fault of the compiler is no reason to end the search of other kernels, and none to be silent."""
        names = ", ".join(task.writes)
        said = (
            f"the kernel that computes {names} is wrong and was not searched: expected what its definition says; "
            f"{error}; do not trust this program's results, and please report it"
        )
        self.wrong.append(said)
        warnings.warn(said, RuntimeWarning, stacklevel=2)

    def _batch(self, kernel: _Kernel) -> None:
        before = kernel.evolution.best[0]
        try:
            self.worker.begin(kernel.subject)
        except (WorkerError, WrongKernelError):
            kernel.hope = 0.0
            return
        for _ in range(_BATCH):
            proposal = None if self._spent() else kernel.evolution.propose()
            if proposal is None:
                break
            self._try(kernel, proposal)
        else:
            won = 1.0 - kernel.evolution.best[0] / before
            kernel.hope = max(_LEAST_HOPE, _FADING * kernel.hope + won)
            return
        kernel.hope = min(kernel.hope, _LEAST_HOPE) if not self._spent() else kernel.hope

    def _try(self, kernel: _Kernel, proposal: Proposal) -> None:
        outcome = self.worker.attempt(proposal.candidate)
        kernel.candidates += 1
        if outcome.rejected is not None:
            kernel.rejected.append(outcome.rejected)
        elif outcome.ratio < kernel.evolution.best[0] * _WORTH:
            again = self.worker.attempt(proposal.candidate)
            outcome = Outcome(max(outcome.ratio, again.ratio), outcome.seconds, again.rejected)
        elif outcome.ratio < kernel.evolution.best[0]:
            outcome = Outcome(kernel.evolution.best[0], outcome.seconds)
        if kernel.evolution.learn(proposal, outcome):
            record = Record(proposal.plan, outcome.ratio, outcome.seconds, kernel.candidates)
            self.records.put(kernel.task.key, record)
        self._tell()

    def _tell(self) -> None:
        total = sum(k.task.calls * k.seconds for k in self.kernels) or 1.0
        best = sum(k.task.calls * k.seconds * k.evolution.best[0] for k in self.kernels)
        candidates = sum(k.candidates for k in self.kernels)
        moment = Moment(time.monotonic() - self.begin, candidates, best / total, best)
        self.curve.append(moment)
        if self.progress is not None:
            self.progress(moment)

    def _correlation(self) -> float | None:
        """Spearman's rank correlation of the model's cycles and the measured ratios, the mean over kernels."""
        found: list[float] = []
        for kernel in self.kernels:
            timed = [(p.cycles, o.ratio) for p, o in kernel.evolution.outcomes if o.rejected is None]
            if len(timed) >= 8:
                cycles, ratios = zip(*timed, strict=True)
                if len(set(cycles)) > 1 and len(set(ratios)) > 1:
                    found.append(statistics.correlation(_ranks(cycles), _ranks(ratios)))
        return statistics.fmean(found) if found else None


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in order; equal ones share the mean of theirs."""
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered)))}
    return [first[value] + (ordered.count(value) - 1) / 2 for value in values]


def _work(task: TuningTask) -> float:
    return task.calls * sum(map(stage_volume, task.group.stages))


def _subject(task: TuningTask, first: Candidate, cold_bytes: int) -> Subject:
    dims = task.built.kernel.dims
    frozen = {t.name for stage in task.group.stages for t in stage.reads() if t.frozen}
    terms = max((typical_volume(stage.reduced) for stage in task.group.stages), default=1.0)
    timed = _points(dims)
    odd = [{dim.name: _odd(dim, number) for number, dim in enumerate(dims)}] if dims else []
    expected = expected_values(task.group, first, (*odd, *timed)[0])
    return Subject(first, tuple(timed), tuple(odd), terms, tuple(sorted(frozen)), cold_bytes, expected)


def _points(dims: Sequence[Dim]) -> list[Mapping[str, int]]:
    """The typical sizes, smallest with smallest: as many points as the dim with most of them has."""
    sizes = {dim.name: sorted(dim.typical) or [int(typical_size(dim))] for dim in dims}
    count = max(map(len, sizes.values()), default=1)
    return [{name: own[min(k, len(own) - 1)] for name, own in sizes.items()} for k in range(count)]


def _odd(dim: Dim, number: int) -> int:
    """A size that is no multiple of any step."""
    wanted = max(dim.min, (37, 11, 5)[number % 3])
    return min(dim.max, -(-wanted // dim.multiple) * dim.multiple)
