"""The engine as a ``Compiler``: the programs of a language model as executables on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from snell.config import Config, process_environment
from snell.engine.default_engine import default_engine
from snell.engine.engine import Engine, Prepared
from snell.errors import ConfigError, FileFormatError
from snell.llm.compiler_protocol import Array, CompiledProgram, Compiler, Program, ProgramRecipe
from snell.llm.constants import constants_from_bytes, constants_to_bytes
from snell.llm.stored_weight import file_identity
from snell.rewrite.policy import Policy
from snell.runtime.binding import Assembled, pack
from snell.runtime.executable import Executable
from snell.runtime.program import BufferSlot

if TYPE_CHECKING:
    from snell.engine.report import Report
    from snell.runtime.kernels import Progress
    from snell.search.tuning import Moment, Tuning

__all__ = ["EngineCompiler", "engine_compiler"]


# A fast machine packs 30 MB in this time.
_RELEASE_SECONDS = 0.005


class EngineCompiler:
    """Compiles with an engine, whose cache folder keeps the result for the next process.

    ``progress`` is told of programs that are not there yet: (0, 0) when one begins, then kernels compiled, of all.
    """

    def __init__(self, engine: Engine, policy: Policy, progress: Progress | None = None) -> None:
        self.engine = engine
        self.policy = policy
        self.progress = progress
        self._packed: dict[str, Any] = {}  # a model's programs share its packed weights

    def compile(self, recipe: ProgramRecipe) -> CompiledProgram:
        """The program as one executable for all sizes, its weights bound; known programs are not even traced."""
        key = self.engine.named_key(recipe.content, self.policy)
        prepared, constants = self.engine.restore(key), self._constants(key)
        if prepared is None or constants is None:
            if self.progress is not None:
                self.progress(0, 0)
            program = recipe.build()
            prepared = self.engine.prepare(program.graph, self.policy, key, self.progress)
            constants = program.constants
            self.engine.cache.put(_constants_key(key), constants_to_bytes(constants))
        self._pack(prepared.assembled, recipe, constants)
        needed = prepared.assembled.needed(self._packed)
        frozen = recipe.weights(name for name in needed if name not in constants)
        bound = prepared.bind({**constants, **frozen}, self.engine.pool(), self._packed)
        return _EngineProgram(prepared, bound)

    def _pack(self, assembled: Assembled, recipe: ProgramRecipe, constants: Mapping[str, Array]) -> None:
        """The packed weights of a program: those that another one has, those of an earlier process, or new ones."""
        wanted = assembled.packed
        if self._packed.keys() >= {slot.name for slot in wanted}:
            return
        key = self._packed_key(recipe, wanted)
        found = self.engine.packed.get(key, wanted)
        if found is None:
            sources = recipe.weights(name for name in assembled.frozen if name not in constants)
            with _repeatedly(recipe.release):
                found = pack(assembled, {**constants, **sources}, self.engine.pool(), self._packed)
            self.engine.packed.put(key, found)
        for name, array in found.items():
            self._packed.setdefault(name, array)

    def _packed_key(self, recipe: ProgramRecipe, slots: Sequence[BufferSlot]) -> str:
        """What is packed, and of which files."""
        content = ("packed", file_identity(recipe.files), *(slot.name for slot in slots))
        return self.engine.named_key("\n".join(content), self.policy)

    def explain(self, program: Program) -> Report:
        """The definitions, kernels and code that the program becomes."""
        return self.engine.explain(program.graph, self.policy)

    def tune(self, program: Program, seconds: float, progress: Callable[[Moment], None] | None) -> Tuning:
        """Search the program's kernels; later compilations use what is found."""
        return self.engine.tune(program.graph, self.policy, seconds, progress)

    def _constants(self, key: str) -> Mapping[str, Array] | None:
        data = self.engine.cache.get(_constants_key(key))
        try:
            return None if data is None else constants_from_bytes(data)
        except FileFormatError:
            return None


@contextlib.contextmanager
def _repeatedly(release: Callable[[], None]) -> Generator[None]:
    """Give pages back while they are being read, and after: what has been packed is not needed in memory again."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(_RELEASE_SECONDS):
            release()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        release()


def _constants_key(key: str) -> str:
    return hashlib.sha256(f"constants {key}".encode()).hexdigest()


class _EngineProgram:
    """Names instead of positions."""

    def __init__(self, prepared: Prepared, executable: Executable) -> None:
        self._inputs, self._outputs = prepared.inputs, prepared.outputs
        self._executable = executable

    def __call__(self, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> Mapping[str, Array]:
        results = self._executable(*[inputs[name] for name in self._inputs], sizes=sizes)
        return dict(zip(self._outputs, results, strict=True))


def engine_compiler(threads: int | None, precision: str | None, progress: Progress | None = None) -> Compiler:
    """The process's engine, or one for so many threads; ``precision`` strict, default (None) or fast."""
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: expected at least 1, received {threads}")
    if precision not in (None, *(policy.value for policy in Policy)):
        raise ConfigError(f"precision: expected strict, default or fast, received {precision!r}")
    engine = default_engine()
    if threads is not None and threads != engine.threads:
        engine = Engine(replace(Config.from_environment(process_environment()), threads=threads))
    return EngineCompiler(engine, Policy(precision or Policy.DEFAULT.value), progress)
