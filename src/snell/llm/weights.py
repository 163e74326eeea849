"""A model's weights while a program is traced: each is a few frozen inputs and the expression that decodes them.

``Weights`` declares the weights of a ``WeightSource`` as inputs of one trace, each once, and keeps the arrays to bind.
"""

from snell.dtypes import from_numpy, u8
from snell.frontend.context import Trace
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.indexing import embedding
from snell.frontend.tensor import Tensor
from snell.graph.primitives import Input
from snell.llm.compiler_protocol import Array
from snell.llm.stored_weight import StoredPlane, StoredWeight, WeightSource

__all__ = ["Weights"]


class Weights:
    """The weights of one program under construction; ``frozen`` are the arrays of the inputs declared so far.

    ``constants`` are those among them that no file holds.
    """

    def __init__(self, trace: Trace, source: WeightSource) -> None:
        self._trace = trace
        self._source = source
        self._inputs: dict[str, Tensor] = {}
        self.frozen: dict[str, Array] = {}
        self.constants: dict[str, Array] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._source

    def __getitem__(self, name: str) -> Tensor:
        """The whole weight, f32; matrices are (out, in)."""
        stored = self._source.stored(name)
        return stored.decode(self._planes(name, stored), stored.shape)

    def optional(self, name: str) -> Tensor | None:
        """The whole weight, or None where the model has none of this name."""
        return self[name] if name in self._source else None

    def rows(self, name: str, indices: Tensor, mode: str = "raise") -> Tensor:
        """Parts of a weight along its first axis, (…,) → (…, *the other axes): rows of a matrix, or whole matrices.

        The planes are gathered before they are decoded: O(result).  ``mode`` "zero" is for indices that are computed to
        be in range, and need no check.
        """
        stored = self._source.stored(name)
        count, *inner = stored.shape
        flat = indices.reshape(-1)
        gathered = {key: _gathered(plane, count, flat, mode) for key, plane in self._planes(name, stored).items()}
        return stored.decode(gathered, (indices.size, *inner)).reshape(*indices.shape, *inner)

    def constant(self, name: str, array: Array) -> Tensor:
        """An array computed at load, as a frozen input."""
        self.constants[name] = array
        return self._input(name, StoredPlane(array.shape, from_numpy(array.dtype), array))

    def _planes(self, name: str, stored: StoredWeight) -> dict[str, Tensor]:
        return {key: self._input(f"{name}.{key}", plane) for key, plane in stored.planes.items()}

    def _input(self, name: str, plane: StoredPlane) -> Tensor:
        if name not in self._inputs:
            declaration = Input(name, plane.shape, plane.dtype, frozen=True, storage=plane.storage)
            self._inputs[name] = Tensor(self._trace.input(declaration), self._trace)
            self.frozen[name] = plane.array
        return self._inputs[name]


def _gathered(plane: Tensor, count: int, parts: Tensor, mode: str) -> Tensor:
    """Parts of a plane whose first axis runs over all rows of ``count`` parts."""
    # A packed field can only be read, and the gather is a sum: cast first.
    whole = astype(plane, u8) if plane.dtype.is_packed else plane
    rows, *inner = plane.shape
    assert isinstance(rows, int)  # the sizes of weights are known
    return embedding(whole.reshape(count, -1), parts, mode=mode).reshape(parts.size * (rows // count), *inner)
