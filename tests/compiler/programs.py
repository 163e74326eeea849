"""Programs that the compiler's tests lower, written with the frontend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import snell as sn
from snell.compiler.lowered import Lowered
from snell.compiler.lowering import lower_graph
from snell.compiler.rewriting import ProgramRewriter
from snell.frontend import TensorSpec, trace
from snell.graph.node import Graph
from snell.loops.verify import verify
from snell.rewrite.policy import Policy
from snell.targets import AVX2

THREADS = 2


def lowered(function: Callable[..., Any], *specs: TensorSpec, policy: Policy = Policy.DEFAULT) -> Lowered:
    """The passes' results for a function of tensors; outputs are named `out` and what follows."""
    graph = trace(function, specs, tuple(f"x{k}" for k in range(len(specs)))).graph
    renamed = Graph(tuple((f"out{k}", operand) for k, (_, operand) in enumerate(graph.outputs)), graph.checks)
    result = lower_graph(renamed, ProgramRewriter(policy), AVX2, THREADS, policy=policy)
    for kernel in result.kernels:
        verify(kernel.kernel)
    return result


def spec(*shape: int | sn.Dim, dtype: str = "f32", **options: Any) -> TensorSpec:
    return TensorSpec.of(shape, dtype, **options)


def attention(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    """Attention written naively."""
    scores = q @ k.transpose(-2, -1) * 0.125
    return sn.softmax(scores, axis=-1) @ v
