"""Operators and methods of Tensor: the table that attaches the functions of `ops`.

The functions are written with the operators, so neither can import the other; this file, which imports both, joins
them.  `frontend/__init__` imports it, hence every Tensor has its methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snell.frontend.ops import (
    activation,
    bitwise,
    comparison,
    contraction,
    division,
    elementwise,
    joining,
    movement,
    power,
    reduction,
    rounding,
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
}

REFLECTED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")

METHODS: dict[str, Callable[..., Any]] = {
    **{name: getattr(reduction, name) for name in ("sum", "mean", "var", "std", "max", "min", "prod", "any", "all")},
    "argmax": reduction.argmax,
    "argmin": reduction.argmin,
    "logsumexp": reduction.logsumexp,
    **{name: getattr(movement, name) for name in ("reshape", "permute", "transpose", "squeeze", "unsqueeze", "expand")},
    **{name: getattr(movement, name) for name in ("flatten", "unflatten", "flip", "roll", "repeat", "tile", "movedim")},
    "swapaxes": movement.transpose,  # the name in NumPy and the array libraries that follow it
    "pad": joining.pad,
    "split": joining.split,
    "chunk": joining.chunk,
    "astype": elementwise.astype,
    "contiguous": elementwise.contiguous,
    "matmul": contraction.matmul,
    **{
        name: getattr(elementwise, name)
        for name in ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "sigmoid")
    },
    **{name: getattr(rounding, name) for name in ("floor", "ceil", "round", "trunc")},
    "abs": comparison.absolute,
    "clip": comparison.clip,
    "relu": activation.relu,
    "gelu": activation.gelu,
    "silu": activation.silu,
    "softmax": activation.softmax,
    "log_softmax": activation.log_softmax,
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
