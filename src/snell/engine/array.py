"""Array: a result of a compiled program, sharing its memory with NumPy and, by DLPack, with every other library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from snell.errors import DonatedError

__all__ = ["Array"]


class Array(NDArrayOperatorsMixin):
    """An n-dimensional array in host memory.  `np.asarray(a)` and `a.numpy()` copy nothing.

    Operators, NumPy's functions and `a[key]` work in NumPy and give NumPy arrays.

    Raises DonatedError where the array was given to a program that may overwrite it.
    """

    __slots__ = ("_values",)

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values: np.ndarray[Any, Any] | None = values

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a NumPy array that shares memory."""
        if self._values is None:
            raise DonatedError(
                "this array was donated to a compiled program, which has overwritten it; "
                "use the program's result, or compile without donating this argument"
            )
        return self._values

    def donate(self) -> np.ndarray[Any, Any]:
        """Give the memory away: the values once more, and never again."""
        values = self.numpy()
        self._values = None
        return values

    def give_back(self, values: np.ndarray[Any, Any]) -> None:
        """Undo `donate`: what was given stayed as it was."""
        self._values = values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numpy().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.numpy().dtype

    @property
    def ndim(self) -> int:
        return self.numpy().ndim

    @property
    def size(self) -> int:
        return self.numpy().size

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if "out" in options:
            options["out"] = tuple(_values(item) for item in options["out"])
        return getattr(ufunc, method)(*map(_values, inputs), **options)

    def __len__(self) -> int:
        return len(self.numpy())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numpy())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __index__(self) -> int:
        return self.numpy().__index__()

    def __format__(self, spec: str) -> str:
        return format(self.item() if spec and self.size == 1 else str(self), spec)

    def __getitem__(self, key: Any) -> Any:
        return self.numpy()[key]

    def item(self) -> Any:
        """The one element as a Python number."""
        return self.numpy().item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.numpy().tolist()

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)
        return values.copy() if copy else values

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.numpy().__dlpack_device__()

    def __repr__(self) -> str:
        return f"sn.Array({np.array2string(self.numpy(), prefix='sn.Array(')}, dtype={self.dtype})"


def _values(item: Any) -> Any:
    return item.numpy() if isinstance(item, Array) else item
