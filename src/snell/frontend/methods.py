"""Operators and methods of Tensor: the table that attaches the functions of `ops`.

The functions are written with the operators, so neither can import the other; this file, which imports both, joins
them.  `frontend/__init__` imports it, hence every Tensor has its methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snell.frontend.ops import (
    activation,
    assignment,
    bitwise,
    comparison,
    contraction,
    creation,
    cumulative,
    division,
    elementwise,
    indexing,
    joining,
    movement,
    power,
    reduction,
    rounding,
    sorting,
    subscript,
)
from snell.frontend.tensor import Tensor

__all__ = ["METHODS", "OPERATORS", "REFLECTED"]

OPERATORS: dict[str, Callable[..., Any]] = {
    "__add__": elementwise.add,
    "__sub__": elementwise.subtract,
    "__mul__": elementwise.multiply,
    "__truediv__": elementwise.divide,
    "__floordiv__": division.floor_divide,
    "__mod__": division.modulo,
    "__pow__": power.power,
    "__matmul__": contraction.matmul,
    "__lt__": comparison.less,
    "__le__": comparison.less_equal,
    "__gt__": comparison.greater,
    "__ge__": comparison.greater_equal,
    "__eq__": comparison.equal,
    "__ne__": comparison.not_equal,
    "__and__": bitwise.bitwise_and,
    "__or__": bitwise.bitwise_or,
    "__xor__": bitwise.bitwise_xor,
    "__lshift__": bitwise.left_shift,
    "__rshift__": bitwise.right_shift,
    "__invert__": bitwise.bitwise_not,
    "__neg__": elementwise.negative,
    "__abs__": comparison.absolute,
    "__getitem__": subscript.getitem,
    "__setitem__": assignment.setitem,
}

REFLECTED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")

METHODS: dict[str, Callable[..., Any]] = {
    **{name: getattr(reduction, name) for name in ("sum", "mean", "var", "std", "max", "min", "prod", "any", "all")},
    **{name: getattr(reduction, name) for name in ("argmax", "argmin", "logsumexp", "count_nonzero")},
    **{name: getattr(cumulative, name) for name in ("cumsum", "cumprod", "cummax", "cummin")},
    **{name: getattr(sorting, name) for name in ("sort", "argsort", "topk")},
    **{name: getattr(movement, name) for name in ("reshape", "permute", "transpose", "squeeze", "unsqueeze", "expand")},
    **{name: getattr(movement, name) for name in ("flatten", "unflatten", "flip", "roll", "repeat", "tile", "movedim")},
    "broadcast_to": movement.broadcast_to,
    "diagonal": movement.diagonal,
    "swapaxes": movement.transpose,  # the name in NumPy and the array libraries that follow it
    "tril": creation.tril,
    "triu": creation.triu,
    "pad": joining.pad,
    "split": joining.split,
    "chunk": joining.chunk,
    **{name: getattr(indexing, name) for name in ("take", "take_along_axis", "gather", "scatter", "scatter_add")},
    "astype": elementwise.astype,
    "contiguous": elementwise.contiguous,
    "matmul": contraction.matmul,
    "dot": contraction.dot,
    **{name: getattr(elementwise, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")},
    **{name: getattr(elementwise, name) for name in ("sqrt", "rsqrt", "square", "reciprocal", "erf", "sigmoid")},
    **{
        name: getattr(elementwise, name)
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
    },
    **{name: getattr(rounding, name) for name in ("floor", "ceil", "round", "trunc")},
    **{name: getattr(comparison, name) for name in ("absolute", "sign", "clip", "maximum", "minimum")},
    **{name: getattr(comparison, name) for name in ("isnan", "isinf", "isfinite")},
    "abs": comparison.absolute,
    "pow": power.power,
    **{name: getattr(activation, name) for name in ("relu", "gelu", "silu", "softplus", "softmax", "log_softmax")},
}


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def swapped(self: Tensor, other: Any) -> Any:
        return function(other, self)

    swapped.__doc__ = function.__doc__
    return swapped


for _name, _function in {**OPERATORS, **METHODS}.items():
    setattr(Tensor, _name, _function)
for _name in REFLECTED:
    setattr(Tensor, f"__r{_name}__", _reflected(OPERATORS[f"__{_name}__"]))
