"""The KV cache inside of a program under construction: donated inputs, and updated outputs of the same names."""

from snell.frontend.context import Trace
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.indexing import update_rows
from snell.frontend.ops.movement import crop
from snell.frontend.tensor import Tensor
from snell.graph.node import Operand
from snell.graph.primitives import Input
from snell.llm.cache import CacheShape
from snell.symbolic import Dim

__all__ = ["TracedCache"]


class TracedCache:
    """``past`` positions are in the cache already; a step adds ``tokens`` more."""

    def __init__(self, trace: Trace, shape: CacheShape, past: Dim, tokens: Dim) -> None:
        self.past, self.tokens, self.shape = past, tokens, shape
        self._inputs: dict[str, Tensor] = {}
        array = (shape.heads, shape.capacity, shape.head_dim)
        for name in shape.names:
            declaration = Input(name, array, shape.dtype, donated=True)
            self._inputs[name] = Tensor(trace.input(declaration), trace)
        self._updated: dict[str, Tensor] = {}

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values so far, f32 (kv_heads, past + tokens, head_dim), given those of the step's tokens."""
        return self._extend(f"keys.{layer}", keys), self._extend(f"values.{layer}", values)

    def outputs(self) -> list[tuple[str, Operand]]:
        """The updated arrays, in the order of the inputs."""
        return [(name, self._updated[name].operand) for name in self.shape.names]

    def _extend(self, name: str, rows: Tensor) -> Tensor:
        updated = update_rows(self._inputs[name], astype(rows, self.shape.dtype), self.past, axis=1)
        self._updated[name] = updated
        return astype(crop(updated, 1, 0, self.past + self.tokens), "f32")
