"""Tensor: an immutable value of a program under construction: an operand of its trace's graph.

Movement only composes the operand's view; arithmetic adds nodes.  Operators and methods are the functions of `ops`; the
table in `methods` attaches them, because the functions themselves are written with the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from snell.dtypes import DType
from snell.errors import GraphError, ShapeError
from snell.frontend.context import Trace
from snell.frontend.evaluator import Array
from snell.graph.node import Operand
from snell.symbolic import Dim, Expr, Shape, Size, View, as_size, product, show_shape

__all__ = ["Scalar", "Tensor", "TensorLike"]

Scalar = bool | int | float | Fraction


class Tensor:
    """A value with a shape (integers, Dims and their polynomials) and a dtype.

    `weak` marks a Python number: in arithmetic it takes the dtype of what it meets.  `==` compares element by element,
    so tensors hash by identity.
    """

    __slots__ = ("operand", "trace", "weak")
    __array_ufunc__ = None  # NumPy arrays on the left leave the operator to us

    operand: Operand
    trace: Trace
    weak: bool

    def __init__(self, operand: Operand, trace: Trace, *, weak: bool = False) -> None:
        object.__setattr__(self, "operand", operand)
        object.__setattr__(self, "trace", trace)
        object.__setattr__(self, "weak", weak)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Tensor is immutable; cannot set {name}")

    def retrieve(self) -> Any:
        """Mark the value as an output of the explicit graph it belongs to; GraphError where it belongs to none."""
        if self.trace.retriever is None:
            raise GraphError("only values of an explicit graph (sn.Graph) can be retrieved; ask for .numpy() instead")
        return self.trace.retriever(self.operand)

    @property
    def shape(self) -> Shape:
        return self.operand.shape

    @property
    def dtype(self) -> DType:
        return self.operand.dtype

    @property
    def ndim(self) -> int:
        return len(self.operand.shape)

    @property
    def size(self) -> Size:
        """Number of elements."""
        return as_size(product(self.shape))

    @property
    def T(self) -> Tensor:  # noqa: N802 - the array API's name
        """The transposed matrix; ShapeError unless 2-dimensional."""
        if self.ndim != 2:
            raise ShapeError(f".T expected a matrix, received shape {show_shape(self.shape)}; use permute or .mT")
        return self.seen_through(self.operand.view.permute((1, 0)))

    @property
    def mT(self) -> Tensor:  # noqa: N802 - the array API's name
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ShapeError(f".mT expected at least two axes, received shape {show_shape(self.shape)}")
        order = (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)
        return self.seen_through(self.operand.view.permute(order))

    def seen_through(self, view: View) -> Tensor:
        """The same node through another view."""
        return Tensor(Operand(self.operand.node, view), self.trace, weak=self.weak)

    def numpy(self) -> Array:
        """The value, through the trace's evaluator; GraphError while the program is only under construction."""
        return self.trace.evaluate([self.operand])[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        del copy
        value = self.numpy()
        return value if dtype is None else value.astype(dtype)

    def item(self) -> Any:
        """The only element as a Python number."""
        value = self.numpy()
        if value.size != 1:
            raise ShapeError(f"item() expected one element, received shape {value.shape}")
        return value.reshape(()).item()

    def __bool__(self) -> bool:
        return bool(self._known("a Python bool; use where(condition, a, b)"))

    def __int__(self) -> int:
        return int(self._known("a Python int"))

    def __float__(self) -> float:
        return float(self._known("a Python float"))

    def _known(self, wanted: str) -> Any:
        if self.trace.evaluator is None:
            raise GraphError(
                f"a tensor under tracing has no value to become {wanted}; compute with snell's functions, "
                "or pass the number as an argument that `static` names"
            )
        return self.item()

    def __format__(self, spec: str) -> str:
        return format(self._known("text"), spec) if spec else str(self)

    def __len__(self) -> int:
        if not self.shape or not isinstance(self.shape[0], int):
            raise ShapeError(f"len() expected a known first extent, received shape {show_shape(self.shape)}")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[k] for k in range(len(self)))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        head = f"Tensor({self.dtype}{show_shape(self.shape)})"
        if self.trace.evaluator is None:
            return head
        return f"{head}\n{np.array2string(self.numpy())}"

    def __reduce__(self) -> tuple[Any, ...]:
        raise GraphError("a Tensor cannot be pickled; save its value, numpy(), instead")

    if TYPE_CHECKING:  # attached by `snell.frontend.methods`
        __add__: Callable[[TensorLike], Tensor]
        __radd__: Callable[[TensorLike], Tensor]
        __sub__: Callable[[TensorLike], Tensor]
        __rsub__: Callable[[TensorLike], Tensor]
        __mul__: Callable[[TensorLike], Tensor]
        __rmul__: Callable[[TensorLike], Tensor]
        __truediv__: Callable[[TensorLike], Tensor]
        __rtruediv__: Callable[[TensorLike], Tensor]
        __floordiv__: Callable[[TensorLike], Tensor]
        __rfloordiv__: Callable[[TensorLike], Tensor]
        __mod__: Callable[[TensorLike], Tensor]
        __rmod__: Callable[[TensorLike], Tensor]
        __pow__: Callable[[TensorLike], Tensor]
        __rpow__: Callable[[TensorLike], Tensor]
        __matmul__: Callable[[TensorLike], Tensor]
        __rmatmul__: Callable[[TensorLike], Tensor]
        __lt__: Callable[[TensorLike], Tensor]
        __le__: Callable[[TensorLike], Tensor]
        __gt__: Callable[[TensorLike], Tensor]
        __ge__: Callable[[TensorLike], Tensor]
        __and__: Callable[[TensorLike], Tensor]
        __rand__: Callable[[TensorLike], Tensor]
        __or__: Callable[[TensorLike], Tensor]
        __ror__: Callable[[TensorLike], Tensor]
        __xor__: Callable[[TensorLike], Tensor]
        __rxor__: Callable[[TensorLike], Tensor]
        __getitem__: Callable[[Any], Tensor]

        def __invert__(self) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __eq__(self, other: TensorLike) -> Tensor: ...  # type: ignore[override]  # element-wise, as in NumPy
        def __ne__(self, other: TensorLike) -> Tensor: ...  # type: ignore[override]  # element-wise, as in NumPy

        sum: Callable[..., Tensor]
        mean: Callable[..., Tensor]
        var: Callable[..., Tensor]
        std: Callable[..., Tensor]
        max: Callable[..., Tensor]
        min: Callable[..., Tensor]
        prod: Callable[..., Tensor]
        argmax: Callable[..., Tensor]
        argmin: Callable[..., Tensor]
        any: Callable[..., Tensor]
        all: Callable[..., Tensor]
        reshape: Callable[..., Tensor]
        permute: Callable[..., Tensor]
        transpose: Callable[..., Tensor]
        squeeze: Callable[..., Tensor]
        unsqueeze: Callable[..., Tensor]
        expand: Callable[..., Tensor]
        flatten: Callable[..., Tensor]
        flip: Callable[..., Tensor]
        pad: Callable[..., Tensor]
        astype: Callable[..., Tensor]
        matmul: Callable[..., Tensor]
        split: Callable[..., tuple[Tensor, ...]]
        contiguous: Callable[[], Tensor]


TensorLike = Tensor | Array | np.generic | Scalar | Dim | Expr
