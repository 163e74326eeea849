"""sin, cos and tan for every finite argument: the argument in quarter turns, then polynomials on ±π/4.

`reduction` yields |x| = (n + f)·π/2 with |f| <= 1/2; the quarter's parity chooses between the two polynomials.
"""

from __future__ import annotations

from snell.codegen.assembler import Value
from snell.codegen.vector_math import coefficients
from snell.codegen.vector_math.arithmetic import Arithmetic
from snell.codegen.vector_math.reduction import Quarters, quarters

__all__ = ["cos", "sin", "tan"]


def sin(a: Arithmetic, x: Value) -> Value:
    """Sine of x radians; NaN at ±inf."""
    reduced = quarters(a, a.magnitude(x))
    sine, cosine = _polynomials(a, reduced)
    result = a.select(_is_odd(a, reduced.count), cosine, sine)
    turned = a.integer_op("shl", reduced.count, a.format.integer.bits - 2)
    return a.flip_sign(result, a.integer_op("xor", turned, a.bits(x)))


def cos(a: Arithmetic, x: Value) -> Value:
    """Cosine of x radians; NaN at ±inf."""
    reduced = quarters(a, a.magnitude(x))
    sine, cosine = _polynomials(a, reduced)
    result = a.select(_is_odd(a, reduced.count), sine, cosine)
    return a.flip_sign(result, a.integer_op("shl", a.integer_op("add", reduced.count, 1), a.format.integer.bits - 2))


def tan(a: Arithmetic, x: Value) -> Value:
    """Tangent of x radians; NaN at ±inf."""
    reduced = quarters(a, a.magnitude(x), is_exact=True)
    sine, cosine = _polynomials(a, reduced)
    is_odd = _is_odd(a, reduced.count)
    ratio = a.div(a.select(is_odd, cosine, sine), a.select(is_odd, sine, cosine))
    turned = a.integer_op("shl", reduced.count, a.format.integer.bits - 1)
    return a.flip_sign(ratio, a.integer_op("xor", turned, a.bits(x)))


def _is_odd(a: Arithmetic, count: Value) -> Value:
    top = a.integer_op("shl", count, a.format.integer.bits - 1)
    return a.assembler.compare("icmp", "slt", top, a.integer(0))


def _polynomials(a: Arithmetic, reduced: Quarters) -> tuple[Value, Value]:
    """sin and cos of the reduced angle r + rest."""
    r, rest = reduced.angle, reduced.rest
    square = a.mul(r, r)
    sine_tail = a.mul(a.polynomial(square, coefficients.SIN), square)
    cosine_tail = a.mul(a.polynomial(square, coefficients.COS), square)
    if rest is None:
        return a.fma(sine_tail, r, r), a.fma(cosine_tail, square, a.fma(square, -0.5, 1.0))
    half = a.mul(square, 0.5)
    one = a.sub(1.0, half)
    # 1 - z/2 is rounded; what that lost, (1 - one) - z/2, is put back with the small terms (fdlibm's k_cos).
    lost = a.sub(a.sub(a.sub(1.0, one), half), a.mul(r, rest))
    return a.add(r, a.fma(sine_tail, r, rest)), a.add(one, a.fma(cosine_tail, square, lost))
