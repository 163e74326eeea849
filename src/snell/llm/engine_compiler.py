"""The engine as a ``Compiler``: the programs of a language model as executables on this machine."""

from collections.abc import Mapping
from dataclasses import replace

from snell.config import Config, process_environment
from snell.engine.defaults import default_engine
from snell.engine.engine import Engine, Prepared
from snell.errors import ConfigError
from snell.llm.compiler_protocol import Array, CompiledProgram, Compiler, Program
from snell.rewrite.rewrite import Policy
from snell.runtime.executable import Executable

__all__ = ["EngineCompiler", "engine_compiler"]


class EngineCompiler:
    """Compiles with an engine, whose cache folder keeps the result for the next process."""

    def __init__(self, engine: Engine, policy: Policy) -> None:
        self.engine = engine
        self.policy = policy

    def compile(self, program: Program) -> CompiledProgram:
        """The program as one executable for all sizes, its weights bound."""
        prepared = self.engine.prepare(program.graph, self.policy)
        return _EngineProgram(prepared, prepared.bind(program.frozen, self.engine.pool()))


class _EngineProgram:
    """Names instead of positions."""

    def __init__(self, prepared: Prepared, executable: Executable) -> None:
        self._inputs, self._outputs = prepared.inputs, prepared.outputs
        self._executable = executable

    def __call__(self, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> Mapping[str, Array]:
        results = self._executable(*[inputs[name] for name in self._inputs], sizes=sizes)
        return dict(zip(self._outputs, results, strict=True))


def engine_compiler(threads: int | None, precision: str | None) -> Compiler:
    """The process's engine, or one for so many threads; ``precision`` strict, default (None) or fast."""
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: expected at least 1, received {threads}")
    if precision not in (None, *(policy.value for policy in Policy)):
        raise ConfigError(f"precision: expected strict, default or fast, received {precision!r}")
    engine = default_engine()
    if threads is not None and threads != engine.threads:
        engine = Engine(replace(Config.from_environment(process_environment()), threads=threads))
    return EngineCompiler(engine, Policy(precision or Policy.DEFAULT.value))
