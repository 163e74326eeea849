"""Every function keeps its error bound over the whole range of its dtype, and its special values.

f32 against float64 and f64 against 80-bit long doubles (erf: mpmath).  `benchmarks/check_vector_math.py` checks all
2**32 values of f32.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from tests.codegen.straight_line import Array, StraightLine, evaluate, module, ulp_errors

from snell.codegen.assembler import Value
from snell.codegen.host import host_target
from snell.codegen.llvm import assembly
from snell.codegen.vector_math import FUNCTIONS, emit_function
from snell.dtypes import DType, f16, f32, f64
from snell.errors import CompileError
from snell.targets import AVX2, AVX2_LOOKUPS, AVX512, NEON, Lookup, Target

# Greatest error in units of the last place: (f32, f64).
BOUNDS = {
    "acos": (1.3, 1.5), "asin": (2.0, 2.0), "atan": (2.0, 2.0), "cos": (1.7, 1.0), "cosh": (1.5, 1.6),
    "erf": (1.5, 1.5), "exp": (1.0, 1.0), "exp2": (1.0, 1.0), "expm1": (1.7, 2.0), "log": (1.1, 1.2),
    "log1p": (1.6, 1.6), "log2": (1.5, 1.5), "rsqrt": (1.5, 1.5), "sigmoid": (2.4, 2.4), "sin": (1.7, 1.0),
    "sinh": (1.7, 1.8), "tan": (2.5, 2.5), "tanh": (1.6, 2.0),
}  # fmt: skip
ODD = ("asin", "atan", "erf", "expm1", "log1p", "sin", "sinh", "tan", "tanh")


def sigmoid(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.where(np.signbit(x), decay, 1) / (1 + decay)


_erf = np.frompyfunc(math.erf, 1, 1)
TRUTHS: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": sigmoid,
    "erf": lambda x: _erf(x).astype(np.float64),
}  # fmt: skip


def truth(name: str, x: Array) -> Array:
    wide = np.float64 if x.dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        return TRUTHS.get(name, getattr(np, name, None))(x.astype(wide))


def edges(dtype: DType) -> Array:
    info = np.finfo(dtype.numpy)
    positive = [0.0, math.inf, math.nan, info.smallest_subnormal, info.smallest_normal, info.max]
    values = np.array([*positive, 0.5, 1.0, 2.0, math.pi, math.pi / 4, 0.625, 1e-4, 88.72284, 709.78], dtype.numpy)
    with np.errstate(over="ignore"):
        around = np.concatenate([values, np.nextafter(values, 0), np.nextafter(values, np.inf)])
    return np.concatenate([around, -around])


def points(dtype: DType, count: int) -> Array:
    """Patterns spread evenly over all exponents, as many values spread evenly around 0, and the edges."""
    unsigned = np.dtype(f"u{dtype.itemsize}").type
    generator = np.random.default_rng(7)
    patterns = generator.integers(0, np.iinfo(unsigned).max, count // 2, unsigned, endpoint=True).view(dtype.numpy)
    near = generator.uniform(-8, 8, count // 2).astype(dtype.numpy)
    joined = np.concatenate([edges(dtype), patterns, near])
    return joined[: joined.size // 64 * 64].copy()


@pytest.fixture(scope="module")
def single() -> Array:
    return points(f32, 1_000_000)


@pytest.fixture(scope="module")
def double() -> Array:
    return points(f64, 60_000)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_f32_error_bound(name: str, single: Array) -> None:
    errors = ulp_errors(evaluate(name, single), truth(name, single))
    worst = int(np.argmax(errors))
    assert errors[worst] <= BOUNDS[name][0], f"{name}({single[worst]!r})"


@pytest.mark.parametrize("name", sorted(FUNCTIONS - {"erf"}))
def test_f64_error_bound(name: str, double: Array) -> None:
    errors = ulp_errors(evaluate(name, double, f64), truth(name, double))
    worst = int(np.argmax(errors))
    assert errors[worst] <= BOUNDS[name][1], f"{name}({double[worst]!r})"


def test_f64_error_bound_of_erf() -> None:
    x = np.concatenate([np.linspace(-6.5, 6.5, 4096), 10.0 ** np.arange(-300, 20, 2.5)])
    with mpmath.workprec(80):
        exact = [mpmath.erf(mpmath.mpf(float(v))) for v in x]
        high = np.array([float(v) for v in exact], np.longdouble)
        low = np.array([float(v - mpmath.mpf(float(v))) for v in exact], np.longdouble)
    assert ulp_errors(evaluate("erf", x, f64), high + low).max() <= BOUNDS["erf"][1]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_arguments_next_to_multiples_of_a_quarter_turn(name: str) -> None:
    """Where reduction cancels most: the nearest floats to n·π/2 for n up to the end of the range (f32)."""
    whole = np.unique(np.round(2.0 ** np.linspace(0, 127, 20_000)))
    with mpmath.workprec(200):
        x = np.array([float(mpmath.mpf(n) * mpmath.pi / 2) for n in whole]).astype(np.float32)
        x = x[np.isfinite(x)][:18944].copy()
        exact = np.array([float(getattr(mpmath, name)(mpmath.mpf(float(v)))) for v in x])
    assert ulp_errors(evaluate(name, x), exact).max() <= BOUNDS[name][0]


@pytest.mark.parametrize("dtype", [f32, f64])
@pytest.mark.parametrize("name", ODD)
def test_odd_functions_keep_the_sign_of_zero(name: str, dtype: DType) -> None:
    zeros = np.array([0.0, -0.0] * 16, dtype.numpy)
    result = evaluate(name, zeros, dtype)
    assert not result.any()
    assert np.array_equal(np.signbit(result), np.signbit(zeros))


@pytest.mark.parametrize("dtype", [f32, f64])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_scalars_and_any_vector_length_agree_bit_for_bit(name: str, dtype: DType) -> None:
    x = points(dtype, 2048)[:1536].copy()
    wide = evaluate(name, x, dtype)
    for lanes in (0, 1, 2, 3, 16):
        assert np.array_equal(evaluate(name, x, dtype, lanes), wide, equal_nan=True), lanes


@pytest.mark.parametrize("lookups", [AVX2_LOOKUPS, ()], ids=["halves of a table", "a table in memory"])
@pytest.mark.parametrize("lanes", [0, 3, 8, 16])
def test_tables_give_the_same_with_shorter_registers_and_without_an_instruction(
    lanes: int, lookups: tuple[Lookup, ...], single: Array
) -> None:
    if lookups and not host_target().lookups:
        pytest.skip("this processor has no instruction for it")
    x = single[:30_720].copy()
    other = replace(host_target(), lookups=lookups)
    assert np.array_equal(evaluate("erf", x, f32, lanes, target=other), evaluate("erf", x, f32, 16), equal_nan=True)


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON], ids=lambda t: t.name)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_target_compiles_without_calls(name: str, target: Target) -> None:
    text = assembly(module(name, f32, target.lanes(f32), target), target)
    assert not [line for line in text.splitlines() if line.strip().startswith(("call", "bl\t", "bl "))]


def test_an_unknown_function_or_dtype_is_named() -> None:
    with pytest.raises(CompileError, match="gamma"):
        emit_function("gamma", StraightLine(), Value("%x", f32), AVX2)
    with pytest.raises(CompileError, match="f16"):
        emit_function("exp", StraightLine(), Value("%x", f16), AVX2)
