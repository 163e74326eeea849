"""Fits the polynomials of `snell.codegen.vector_math` and writes them as literals; needs mpmath.

Method: Remez exchange on a dense Chebyshev grid in 60-digit arithmetic, minimising the weighted error.  Coefficients
are rounded to the dtype one after the other, lowest degree first, and the higher ones are fitted again to what is
left, so that a low coefficient's rounding is absorbed (the greedy form of Brisebarre & Chevillard, "Efficient
polynomial L-infinity approximations", ARITH 2007).

    python benchmarks/fit_vector_math.py > src/snell/codegen/vector_math/coefficients.py
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 60
GRID = 400
Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Fit:
    """`function(x)` by a polynomial over `low..high`; errors are multiplied by `weight(x)` (relative to the result)."""

    name: str
    function: Function
    low: Any
    high: Any
    weight: Function
    degree32: int | None
    degree64: int | None


def _grid(fit: Fit) -> list[Any]:
    middle, half = (mp.mpf(fit.low) + mp.mpf(fit.high)) / 2, (mp.mpf(fit.high) - mp.mpf(fit.low)) / 2
    return [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * GRID)) for k in range(GRID)]


def _solve(points: list[Any], residual: list[Any], weights: list[Any], powers: range) -> tuple[list[Any], Any]:
    """Coefficients whose weighted error alternates ±e on the reference points, and e."""
    size = len(powers) + 1
    matrix, right = mp.matrix(size, size), mp.matrix(size, 1)
    for row in range(size):
        for column, power in enumerate(powers):
            matrix[row, column] = points[row] ** power
        matrix[row, size - 1] = (-1) ** row / weights[row]
        right[row] = residual[row]
    solution = mp.lu_solve(matrix, right)
    return [solution[i] for i in range(size - 1)], solution[size - 1]


def _extrema(errors: list[Any], count: int) -> list[int]:
    """Indices of `count` alternating extrema of the error curve."""
    peaks: list[int] = []
    for index, error in enumerate(errors):
        if peaks and (errors[peaks[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = index
        else:
            peaks.append(index)
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def _remez(points: list[Any], residual: list[Any], weights: list[Any], powers: range) -> list[Any]:
    count = len(powers) + 1
    reference = [round(i * (GRID - 1) / (count - 1)) for i in range(count)]
    best: tuple[Any, list[Any]] | None = None
    for _ in range(12):
        pick = [points[i] for i in reference], [residual[i] for i in reference], [weights[i] for i in reference]
        coefficients, _ = _solve(*pick, powers)
        errors = [
            (r - p ** powers[0] * mp.polyval(coefficients[::-1], p)) * w
            for p, r, w in zip(points, residual, weights, strict=True)
        ]
        worst = max(abs(e) for e in errors)
        if best is None or worst < best[0]:
            best = (worst, coefficients)
        peaks = _extrema(errors, count)
        if len(peaks) < count or peaks == reference:
            break
        reference = peaks
    assert best is not None
    return best[1]


def fitted(fit: Fit, degree: int, dtype: type[np.floating[Any]]) -> tuple[list[float], float]:
    """Rounded coefficients, lowest first, and the greatest weighted error on the grid.

    Greedy rounding helps at low degrees; at high ones it chases the rounding of the first coefficients, so the better
    of both is kept.
    """
    points = _grid(fit)
    values = [fit.function(x) for x in points]
    weights = [abs(fit.weight(x)) for x in points]
    plain = [_round(c, dtype) for c in _remez(points, values, weights, range(degree + 1))]
    greedy: list[float] = []
    residual = values
    for power in range(degree + 1 if dtype is np.float32 else 0):
        greedy.append(_round(_remez(points, residual, weights, range(power, degree + 1))[0], dtype))
        residual = [r - mp.mpf(greedy[-1]) * x**power for r, x in zip(residual, points, strict=True)]
    found = [(_error(c, points, values, weights), c) for c in (plain, greedy) if c]
    error, coefficients = min(found)
    return coefficients, error


def _error(coefficients: list[float], points: list[Any], values: list[Any], weights: list[Any]) -> float:
    exact = [mp.mpf(c) for c in reversed(coefficients)]
    return float(max(abs(mp.polyval(exact, x) - v) * w for x, v, w in zip(points, values, weights, strict=True)))


def _round(value: Any, dtype: type[np.floating[Any]]) -> float:
    if dtype is np.float64:
        return float(value)
    with mp.workprec(24):
        return float(+value)


def _root(function: Function) -> Function:
    """A function of z = x² from an odd or even function of x."""
    return lambda z: function(mp.sqrt(z))


LN2 = mp.log(2)
TINY = mp.mpf(2) ** -60
QUARTER = (mp.pi / 4 * mp.mpf("1.01")) ** 2


def _exp_tail(r: Any) -> Any:
    return (mp.expm1(r) - r) / r**2


def _log_tail(u: Any) -> Any:
    return (mp.log1p(u) - u + u**2 / 2) / u**3


def _cubic(function: Function) -> Function:
    """`(f(x)/x - 1)/x²`: the tail of `x + x³·P(x²)`."""
    return lambda x: (function(x) / x - 1) / x**2


def _odd(name: str, function: Function, high: Any, degree32: int, degree64: int) -> Fit:
    """`f(x) = x + x*z*P(z)` with z = x² over `0 <= x <= high`, relative to f."""
    tail, weight = _root(_cubic(function)), _root(lambda x: x**3 / function(x))
    return Fit(name, tail, TINY, mp.mpf(high) ** 2, weight, degree32, degree64)


def _scaled_erfc(t: Any) -> Any:
    """`exp(x²)·erfc(x)` at `x = (1 + t)·2 / (1 - t)`-like points, see ERFC_CENTRE."""
    x = ERFC_CENTRE * (1 + t) / (1 - t)
    return mp.exp(x**2) * mp.erfc(x)


ERFC_CENTRE = mp.mpf(2)
ERFC_LOW = (1 - ERFC_CENTRE) / (1 + ERFC_CENTRE)
ERFC_HIGH = (6 - ERFC_CENTRE) / (6 + ERFC_CENTRE)

FITS = (
    Fit("EXP2", lambda r: (2**r - 1) / r, "-0.5", mp.mpf("0.5") + TINY, lambda r: r / 2**r, 5, 12),
    Fit("EXP", _exp_tail, -LN2 / 2 * mp.mpf("1.001"), LN2 / 2 * mp.mpf("1.002"), lambda r: r**2 / mp.expm1(r), 4, 10),
    Fit("LOG", _log_tail, mp.mpf("-0.3334"), mp.mpf("0.33341"), lambda u: u**3 / mp.log1p(u), 7, 21),
    Fit("SIN", _root(_cubic(mp.sin)), TINY, QUARTER, _root(lambda x: x**3 / mp.sin(x)), 2, 6),
    Fit("COS", _root(lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4), mp.mpf("1e-6"), QUARTER,
        _root(lambda x: x**4 / mp.cos(x)), 2, 6),
    _odd("TANH", mp.tanh, "0.625", 4, 14),
    _odd("SINH", mp.sinh, "1.0", 3, 8),
    _odd("ASIN", mp.asin, "0.5", 4, 14),
    _odd("ATAN", mp.atan, mp.tan(mp.pi / 8) * mp.mpf("1.0001"), 4, 12),
    Fit("ERF", _root(lambda x: mp.erf(x) / x - 1), TINY, mp.mpf(1), _root(lambda x: x / mp.erf(x)), None, 14),
    Fit("ERFC", _scaled_erfc, ERFC_LOW, ERFC_HIGH, lambda t: 1 / _scaled_erfc(t), None, 22),
)  # fmt: skip

PIECES, PIECE_DEGREE = 16, 5
ERF_SCALE = 3.85  # pieces to a unit


def _step() -> float:
    return _round(1 / mp.mpf(_round(ERF_SCALE, np.float32)), np.float32)


def _missing(centre: Any, d: Any) -> Any:
    """erf - 1, let go to 0 between 0.055 and 0.005 below the last piece's centre: half a last place or less is left."""
    return (mp.erf(centre + d) - 1) * min(1, max(0, (mp.mpf("-0.005") - d) / mp.mpf("0.05")))


def _erf_pieces() -> list[list[float]]:
    """Coefficients of erf in f32 around k·ERF_STEP for each k.

    The first are those of erf(x)/x - 1, an x lower.  The last end in exactly 1, as erf rounds to.
    """
    inverse = mp.mpf(_step())
    half = mp.mpf("0.500001") / mp.mpf(ERF_SCALE)
    first = Fit("", lambda d: mp.erf(d) / d - 1, TINY, half, lambda d: d / mp.erf(d), PIECE_DEGREE - 1, None)
    found = [[0.0, *fitted(first, PIECE_DEGREE - 1, np.float32)[0]]]
    for k in range(1, PIECES - 1):
        piece = Fit(
            "",
            lambda d, c=k * inverse: mp.erf(c + d),
            -half,
            half,
            lambda d, c=k * inverse: 1 / mp.erf(c + d),
            PIECE_DEGREE,
            None,
        )
        found.append(fitted(piece, PIECE_DEGREE, np.float32)[0])
    centre = (PIECES - 1) * inverse
    last = Fit(
        "", lambda d: _missing(centre, d) / d, -half, mp.mpf("3.93") - centre, lambda d: d, PIECE_DEGREE - 1, None
    )
    found.append([1.0, *fitted(last, PIECE_DEGREE - 1, np.float32)[0]])
    return found


def _write_pieces() -> None:
    """One table a degree: the coefficient of every piece."""
    sys.stdout.write(f"\nERF_SCALE: Final = {_round(ERF_SCALE, np.float32)!r}\n")
    sys.stdout.write(f"ERF_STEP: Final = {_step()!r}\n")
    sys.stdout.write("ERF_PIECES: Final[tuple[tuple[float, ...], ...]] = (\n")
    for column in zip(*_erf_pieces(), strict=True):
        text = textwrap.fill(", ".join(repr(c) for c in column) + ",", 112)
        sys.stdout.write(f"    (\n{textwrap.indent(text, ' ' * 8)}\n    ),\n")
    sys.stdout.write(")  # fmt: skip\n")


def _variants(fit: Fit) -> list[tuple[str, int, type[np.floating[Any]], float]]:
    variants = [("f32", fit.degree32, np.float32, 2**-24), ("f64", fit.degree64, np.float64, 2**-53)]
    return [(key, degree, dtype, unit) for key, degree, dtype, unit in variants if degree is not None]


def main(names: list[str]) -> None:
    """Print the module of literals; fits' errors go to standard error, in units of half a last place."""
    out = sys.stdout
    out.write(
        '"""Polynomial coefficients by dtype, lowest degree first; written by `benchmarks/fit_vector_math.py`."""\n\n'
    )
    out.write("from typing import Final\n\nCoefficients = dict[str, tuple[float, ...]]\n")
    for fit in FITS:
        if names and fit.name not in names:
            continue
        out.write(f"\n{fit.name}: Final[Coefficients] = {{\n")
        for key, degree, dtype, unit in _variants(fit):
            coefficients, error = fitted(fit, degree, dtype)
            sys.stderr.write(f"{fit.name:10} {key} degree {degree:2}: {error / unit:.4f} half ulp\n")
            text = textwrap.fill(", ".join(repr(c) for c in coefficients) + ",", 112)
            out.write(f'    "{key}": (\n{textwrap.indent(text, " " * 8)}\n    ),\n')
        out.write("}  # fmt: skip\n")
    if not names or "ERF_PIECES" in names:
        _write_pieces()


if __name__ == "__main__":
    main(sys.argv[1:])
