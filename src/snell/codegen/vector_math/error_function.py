"""erf: in f32 sixteen polynomials, in f64 `x + x·P(x²)` below 1 and 1 - e^(-x²)·Q((|x|-2)/(|x|+2)) above."""

from __future__ import annotations

from snell.codegen.assembler import Value
from snell.codegen.vector_math import coefficients
from snell.codegen.vector_math.arithmetic import Arithmetic
from snell.codegen.vector_math.exponential import exp
from snell.dtypes import f32

__all__ = ["erf"]


def erf(a: Arithmetic, x: Value) -> Value:
    """2/√π·∫ e^(-t²) dt from 0 to x."""
    magnitude = a.magnitude(x)
    return a.with_sign_of(_single(a, magnitude) if a.dtype == f32 else _double(a, magnitude), x)


def _single(a: Arithmetic, magnitude: Value) -> Value:
    """A polynomial around the nearest of sixteen points, its coefficients looked up.

    erf rounds to 1 from 3.92 on; the last polynomial is exactly 1 at 3.93.  Its last bit there would make 1 + erf(-x) a
    number instead of 0, and gelu(-inf) -inf instead of NaN.
    """
    bounded = a.at_most(magnitude, 3.93)
    shifted = a.fma(bounded, coefficients.ERF_SCALE, a.format.rounding)
    place = a.sub(shifted, a.format.rounding)
    distance = a.fma(place, -coefficients.ERF_STEP, bounded)
    first, *others = (a.looked_up(table, a.bits(shifted)) for table in coefficients.ERF_PIECES)
    result = others.pop()
    while others:
        result = a.fma(result, distance, others.pop())
    return a.fma(result, distance, a.select(a.less(place, 0.5), distance, first))


def _double(a: Arithmetic, magnitude: Value) -> Value:
    small = a.fma(a.polynomial(a.mul(magnitude, magnitude), coefficients.ERF), magnitude, magnitude)
    bounded = a.at_most(magnitude, 6.0)
    scaled = a.polynomial(a.div(a.sub(bounded, 2.0), a.add(bounded, 2.0)), coefficients.ERFC)
    gauss = exp(a, a.mul(bounded, a.sub(-0.0, bounded)))
    large = a.fma(gauss, a.sub(-0.0, scaled), 1.0)
    return a.select(a.less(magnitude, 1.0), small, large)
