"""The compiler that models run on unless another is given.

The engine is not there yet: until it lands, this is the reference interpreter, right and slow.
"""

from snell.errors import ConfigError
from snell.llm.compiler_protocol import Compiler
from snell.llm.interpreted import InterpretingCompiler

__all__ = ["engine_compiler"]


def engine_compiler(threads: int | None, precision: str | None) -> Compiler:
    """The compiler for so many threads (None: all that are available) and a precision policy."""
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: expected at least 1, received {threads}")
    if precision not in (None, "strict", "default", "fast"):
        raise ConfigError(f"precision: expected strict, default or fast, received {precision!r}")
    return InterpretingCompiler()
