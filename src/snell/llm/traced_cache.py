"""The KV cache inside of a program under construction: donated inputs, and updated outputs of the same names.

A family asks a ``StepCache`` for what depends on where tokens stand, and so knows neither how many texts a step
continues nor where their caches lie.
"""

from collections.abc import Callable
from typing import Protocol

from snell.dtypes import DType, i32
from snell.frontend.context import Trace
from snell.frontend.ops import reduction
from snell.frontend.ops.comparison import absolute
from snell.frontend.ops.creation import iota
from snell.frontend.ops.elementwise import astype, divide
from snell.frontend.ops.indexing import update_rows
from snell.frontend.ops.movement import crop, unsqueeze
from snell.frontend.tensor import Tensor
from snell.graph.node import Operand
from snell.graph.primitives import Input
from snell.llm.cache import CacheShape, scales_name
from snell.symbolic import Dim

__all__ = ["Attend", "StepCache", "TracedCache"]

# Queries of a text's tokens, its keys and values so far, and the positions before those tokens → what they attend.
Attend = Callable[[Tensor, Tensor, Tensor, Dim], Tensor]


class StepCache(Protocol):
    """The positions of a step's tokens, and what was kept of the tokens before them."""

    shape: CacheShape

    def positions(self) -> Tensor:
        """Where the step's tokens stand, i32 (tokens,)."""
        ...

    def attended(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, attend: Attend) -> Tensor:
        """Keep keys and values (kv_heads, tokens, head_dim); ``attend`` by queries (heads, tokens, head_dim)."""
        ...


class TracedCache:
    """One text: ``past`` positions are in the cache already; a step adds ``tokens`` more.

    ``prefix`` begins the names of its inputs and outputs, where a program has several.
    """

    def __init__(self, trace: Trace, shape: CacheShape, past: Dim, tokens: Dim | int, prefix: str = "") -> None:
        self.past, self.tokens, self.shape = past, tokens, shape
        self._trace, self._prefix = trace, prefix
        self._inputs: dict[str, Tensor] = {}
        for name, (array, dtype) in shape.arrays.items():
            declaration = Input(prefix + name, array, dtype, donated=True)
            self._inputs[name] = Tensor(trace.input(declaration), trace)
        self._updated: dict[str, Tensor] = {}

    def positions(self) -> Tensor:
        """From ``past`` on, i32 (tokens,)."""
        return crop(iota(self.shape.capacity, i32, trace=self._trace), 0, self.past, self.tokens)

    def attended(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, attend: Attend) -> Tensor:
        """Keep the keys and values, and attend all so far."""
        return attend(queries, *self.extend(layer, keys, values), self.past)

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values so far, f32 (kv_heads, past + tokens, head_dim), given those of the step's tokens."""
        return self._extend(f"keys.{layer}", keys), self._extend(f"values.{layer}", values)

    def outputs(self) -> list[tuple[str, Operand]]:
        """The updated arrays, in the order of the inputs."""
        return [(self._prefix + name, self._updated[name].operand) for name in self.shape.names]

    def _extend(self, name: str, rows: Tensor) -> Tensor:
        if not self.shape.is_scaled:
            return astype(self._kept(name, astype(rows, self.shape.dtype)), "f32")
        codes, scales = _coded(rows, self.shape.dtype)
        return astype(self._kept(name, codes), "f32") * unsqueeze(self._kept(scales_name(name), scales), -1)

    def _kept(self, name: str, rows: Tensor) -> Tensor:
        """An array with the step's rows in it, up to the last of them."""
        updated = self._updated[name] = update_rows(self._inputs[name], rows, self.past, axis=1)
        return crop(updated, 1, 0, self.past + self.tokens)


def _coded(rows: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    """Whole numbers of the dtype for f32 (heads, tokens, head_dim), and the scales (heads, tokens) that they count.

    A value moves by half a scale at most.  A row of zeros stays one; with an infinity or a NaN in it, it is not finite.
    """
    most = int(dtype.range[1])
    scales = reduction.max(absolute(rows), axis=-1) * (1 / most)
    # Within ±most, truncating what is most + 1.5 more is a floor: rounding to nearest in one pass over the rows.
    raised = divide(rows, unsqueeze(scales, -1)) + (most + 1.5)
    return astype(astype(raised, "i32") - (most + 1), dtype), scales
