"""How a load or store moves with each axis: element strides under a layout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from snell.graph.primitives import Storage
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Load, Tensor, Term
from snell.symbolic import Axis, Expr, as_expr

__all__ = ["Access", "access_of", "strides_of"]


def strides_of(tensor: Tensor) -> tuple[Expr, ...]:
    """Row-major element strides; for stored planes in units of the element (fields of one byte: 0)."""
    if isinstance(tensor.storage, Storage):
        unit = max(8, tensor.dtype.bits)
        return tuple(as_expr(stride // unit) for stride in tensor.storage.strides)
    strides: list[Expr] = []
    stride = as_expr(1)
    for size in reversed(tensor.shape):
        strides.append(stride)
        stride = stride * as_expr(size)
    return tuple(reversed(strides))


class Access:
    """Typical element stride of one load (or store) along each axis; None where the index is not affine in it."""

    __slots__ = ("_strides", "axes", "tensor")

    def __init__(self, tensor: Tensor, indices: Sequence[Expr]) -> None:
        self.tensor = tensor
        self.axes = frozenset(axis for e in indices for axis in e.axes())
        self._strides: dict[Axis, float | None] = {}
        places = strides_of(tensor)
        for axis in self.axes:
            total: float | None = 0.0
            for expression, stride in zip(indices, places, strict=True):
                if axis not in expression.axes():
                    continue
                if not expression.is_affine_in(axis):
                    total = None
                    break
                total += expression.coefficient(axis) * typical_size(stride)
            self._strides[axis] = total

    def stride(self, axis: Axis) -> float | None:
        return self._strides.get(axis, 0.0)

    def is_vector(self, axis: Axis) -> bool:
        """Lanes along `axis` are one contiguous load, or one value for all lanes."""
        return self.stride(axis) in (0.0, 1.0)


@lru_cache(maxsize=1 << 12)
def access_of(item: Term) -> Access:
    """The access of a load, worked out once a term."""
    assert isinstance(item.op, Load)
    return Access(item.op.tensor, item.op.indices)
