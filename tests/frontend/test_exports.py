"""The public names are what they say they are."""

import inspect

from tests.frontend.judge import random, tensor

import snell.frontend as sn
from snell.frontend import methods
from snell.graph.primitives import Constant, Input, Iota, Op, Random

NODES = {
    "Add",
    "Mul",
    "Mod",
    "LessThan",
    "Log2",
    "Exp2",
    "Sin",
    "Sqrt",
    "Recip",
    "SumReduce",
    "MaxReduce",
    "Contiguous",
}


def test_every_public_function_has_a_docstring() -> None:
    functions = {name: getattr(sn, name) for name in sn.__all__ if inspect.isroutine(getattr(sn, name))}
    assert len(functions) > 150
    assert [name for name, function in functions.items() if not inspect.getdoc(function)] == []


def test_every_method_is_the_function_of_the_same_meaning() -> None:
    x = tensor(random(2, 3))
    for name in methods.METHODS:
        assert getattr(type(x), name) is methods.METHODS[name]


def test_a_transformer_block_is_made_of_the_primitives_alone() -> None:
    def block(x: sn.Tensor, w: sn.Tensor) -> sn.Tensor:
        attended = sn.scaled_dot_product_attention(x, x, x, is_causal=True) @ w
        return sn.layer_norm(x + sn.gelu(attended)) * sn.silu(x)

    traced = sn.trace(block, [sn.TensorSpec.of((2, 5, 8)), sn.TensorSpec.of((8, 8))])
    ops: list[Op] = [node.op for node in traced.graph.nodes()]
    named = {type(op).__name__ for op in ops if not isinstance(op, Input | Constant | Iota | Random)}
    assert named - NODES == {"ScalarFunction"}
