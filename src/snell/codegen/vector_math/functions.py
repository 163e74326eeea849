"""The table of elementary functions by name, each for f32 and f64 and any number of lanes.

Errors are bounded over all arguments, denormals and huge ones included (`tests/codegen/test_vector_math.py`;
exhaustively in f32: `benchmarks/check_vector_math.py`).  -0 is kept by the odd functions; NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from snell.codegen.assembler import Assembler, Value
from snell.codegen.vector_math.arithmetic import Arithmetic
from snell.codegen.vector_math.error_function import erf
from snell.codegen.vector_math.exponential import cosh, exp, exp2, expm1, sigmoid, sinh, tanh
from snell.codegen.vector_math.inverse import acos, asin, atan
from snell.codegen.vector_math.logarithm import log, log1p, log2
from snell.codegen.vector_math.trigonometric import cos, sin, tan
from snell.dtypes import f32, f64
from snell.errors import CompileError
from snell.targets import Target

__all__ = ["FUNCTIONS", "emit_function"]


def _rsqrt(a: Arithmetic, x: Value) -> Value:
    """1/√x by an exact root and an exact division."""
    return a.div(1.0, a.sqrt(x))


_TABLE: Final = MappingProxyType[str, Callable[[Arithmetic, Value], Value]](
    {
        "acos": acos, "asin": asin, "atan": atan, "cos": cos, "cosh": cosh, "erf": erf, "exp": exp, "exp2": exp2,
        "expm1": expm1, "log": log, "log1p": log1p, "log2": log2, "rsqrt": _rsqrt, "sigmoid": sigmoid, "sin": sin,
        "sinh": sinh, "tan": tan, "tanh": tanh,
    }
)  # fmt: skip
FUNCTIONS: Final = frozenset(_TABLE)


def emit_function(name: str, assembler: Assembler, argument: Value, target: Target) -> Value:
    """Emit `name(argument)` in the argument's dtype; CompileError for other names or dtypes.

    No function needs anything that a target may lack beyond a fused multiply-add; results are the same on all targets.
    """
    function = _TABLE.get(name)
    if function is None:
        raise CompileError(f"expected one of {', '.join(sorted(FUNCTIONS))}, received the function {name!r}")
    if argument.dtype not in (f32, f64):
        raise CompileError(f"{name} is computed in f32 or f64, received {argument.dtype}; convert before and after")
    arithmetic = Arithmetic(assembler, argument.dtype, argument.lanes, target.scalings, target.lookups)
    return function(arithmetic, argument)
