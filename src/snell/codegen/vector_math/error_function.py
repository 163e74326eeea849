"""erf: `x + x·P(x²)` below 1; above, in f32 a polynomial in |x|, in f64 1 - e^(-x²)·Q((|x|-2)/(|x|+2))."""

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
    small = a.fma(a.polynomial(a.mul(x, x), coefficients.ERF), magnitude, magnitude)
    large = _single(a, magnitude) if a.dtype == f32 else _double(a, magnitude)
    return a.with_sign_of(a.select(a.less(magnitude, 1.0), small, large), x)


def _single(a: Arithmetic, magnitude: Value) -> Value:
    # erf rounds to 1 in f32 from 3.92 on; the polynomial is fitted up to 3.93.  Its last bit there would make 1 + erf(-x)
    # a number instead of 0, and gelu(-inf) -inf instead of NaN.
    polynomial = a.polynomial(a.sub(a.at_most(magnitude, 3.93), 2.5), coefficients.ERF_HIGH)
    return a.select(a.less(3.92, magnitude), 1.0, polynomial)


def _double(a: Arithmetic, magnitude: Value) -> Value:
    bounded = a.at_most(magnitude, 6.0)
    scaled = a.polynomial(a.div(a.sub(bounded, 2.0), a.add(bounded, 2.0)), coefficients.ERFC)
    gauss = exp(a, a.mul(bounded, a.sub(-0.0, bounded)))
    return a.fma(gauss, a.sub(-0.0, scaled), 1.0)
