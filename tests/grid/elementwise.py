"""The grid's element-wise operations."""

from __future__ import annotations

from tests.grid.domains import Domain
from tests.grid.operation import ANY, BY_NAME, FLOATS, INTEGERS, NUMBERS, SAMPLE, Argument, Operation, of_same_shape

import snell.frontend as sn
from snell.dtypes import bool_

__all__ = ["ELEMENTWISE"]

MATH = (*FLOATS, BY_NAME["i32"], BY_NAME["bool"])


def _unary(
    names: str, domain: Domain, dtypes: tuple[sn.DTypeLike, ...], ulps: float, absolute: float = 0.0
) -> list[Operation]:
    return [
        Operation(name, getattr(sn, name), of_same_shape(domain), dtypes, ulps=ulps, absolute=absolute)
        for name in names.split()
    ]


def _binary(
    names: str, first: Domain, second: Domain, dtypes: tuple[sn.DTypeLike, ...], ulps: float = 0.0
) -> list[Operation]:
    return [
        Operation(name, getattr(sn, name), of_same_shape(first, second), dtypes, ulps=ulps) for name in names.split()
    ]


ELEMENTWISE: tuple[Operation, ...] = (
    # Correctly rounded, or no rounding at all.
    *_unary("negative square sign", Domain.SPECIAL, NUMBERS, 0.5),
    *_unary("absolute", Domain.SPECIAL, NUMBERS, 0.0),
    *_unary("floor ceil trunc round", Domain.SPECIAL, (*FLOATS, BY_NAME["i32"]), 0.0),
    *_unary("isnan isfinite isinf", Domain.SPECIAL, (*FLOATS, BY_NAME["i32"], BY_NAME["bool"]), 0.0),
    *_unary("logical_not", Domain.SPECIAL, ANY, 0.0),
    *_unary("contiguous barrier", Domain.SPECIAL, ANY, 0.0),
    *_unary("sqrt reciprocal", Domain.SPECIAL, MATH, 1.0),
    *_unary("relu relu6 clip", Domain.SPECIAL, NUMBERS, 0.0),
    *_unary("bitwise_not", Domain.SPECIAL, (*INTEGERS, bool_), 0.0),
    # Generated functions: within 2 ulp of the result, and the result of rounding to the dtype.
    *_unary("exp exp2 expm1 log log2 log10 log1p rsqrt", Domain.SPECIAL, MATH, 3.0),
    *_unary("sin cos tan", Domain.MODERATE, MATH, 3.0, 1.0),
    *_unary("asin acos", Domain.UNIT, MATH, 4.0, 1.0),
    *_unary("atan tanh erf sinh cosh sigmoid", Domain.SPECIAL, MATH, 4.0),
    *_unary("asinh", Domain.MODERATE, MATH, 8.0),
    *_unary("acosh", Domain.POSITIVE, MATH, 8.0, 1.0),
    *_unary("atanh", Domain.UNIT, MATH, 8.0),
    # Activations cancel for negative arguments: their error is measured against the argument (at most 4 here).
    *_unary("elu celu selu gelu silu softplus log_sigmoid mish", Domain.MODERATE, (*FLOATS, BY_NAME["i32"]), 8.0, 8.0),
    *_unary("leaky_relu softsign hardsigmoid hardswish", Domain.MODERATE, (*FLOATS, BY_NAME["i32"]), 4.0, 4.0),
    Operation(
        "gelu tanh", lambda x: sn.gelu(x, "tanh"), of_same_shape(Domain.MODERATE), FLOATS, ulps=8.0, absolute=8.0
    ),
    *_binary("add subtract multiply", Domain.SPECIAL, Domain.SPECIAL, NUMBERS, 0.5),
    *_binary("divide", Domain.SPECIAL, Domain.SPECIAL, MATH, 1.0),
    *_binary("maximum minimum", Domain.SPECIAL, Domain.SPECIAL, ANY),
    *_binary("less less_equal greater greater_equal equal not_equal", Domain.SPECIAL, Domain.SPECIAL, ANY),
    *_binary("logical_and logical_or logical_xor", Domain.MODERATE, Domain.MODERATE, SAMPLE),
    *_binary("modulo fmod floor_divide", Domain.MODERATE, Domain.NONZERO, NUMBERS, 0.5),
    *_binary("modulo fmod floor_divide", Domain.SPECIAL, Domain.NONZERO, INTEGERS),
    *_binary("power", Domain.POSITIVE, Domain.PLAIN, FLOATS, 64.0),
    *_binary("power", Domain.PLAIN, Domain.COUNT, INTEGERS),
    *_binary(
        "bitwise_and bitwise_or bitwise_xor",
        Domain.SPECIAL,
        Domain.SPECIAL,
        (BY_NAME["bool"], BY_NAME["u8"], BY_NAME["i8"], BY_NAME["i32"]),
    ),
    *_binary(
        "left_shift right_shift",
        Domain.SPECIAL,
        Domain.COUNT,
        (BY_NAME["i8"], BY_NAME["u8"], BY_NAME["i32"], BY_NAME["u64"]),
    ),
    Operation(
        "where",
        sn.where,
        lambda shape: [Argument(shape, dtype=bool_), Argument(shape, Domain.SPECIAL), Argument(shape, Domain.SPECIAL)],
        ANY,
    ),
    Operation("clip both", lambda x: sn.clip(x, 1, 3), of_same_shape(Domain.SPECIAL), NUMBERS),
    Operation("power half", lambda x: sn.power(x, 0.5), of_same_shape(Domain.POSITIVE), FLOATS, ulps=1.0),
    Operation("power three", lambda x: sn.power(x, 3), of_same_shape(Domain.SPECIAL), NUMBERS, ulps=2.0),
    Operation("divide by three", lambda x: x / 3, of_same_shape(Domain.SPECIAL), MATH, ulps=1.0),
    Operation("number minus", lambda x: 2 - x, of_same_shape(Domain.SPECIAL), NUMBERS, ulps=0.5),
    *(
        Operation(
            f"astype {target}", lambda x, to=target: sn.astype(x, to), of_same_shape(Domain.SPECIAL), ANY, ulps=0.5
        )
        for target in ANY
    ),
)
