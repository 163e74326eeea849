"""What the grid knows of an operation: how to call it, on what arguments, and how exact its answer has to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.grid.domains import Below, Domain

from snell.dtypes import ALL, DType
from snell.symbolic import Shape

__all__ = [
    "ANY", "FLOATS", "INTEGERS", "NUMBERS", "SAMPLE", "WORDS", "Argument", "Operation", "of_same_shape",
]  # fmt: skip

ANY = tuple(dtype for dtype in ALL if not dtype.is_packed)
NUMBERS = tuple(dtype for dtype in ANY if dtype.kind != "bool")
FLOATS = tuple(dtype for dtype in ANY if dtype.is_float)
INTEGERS = tuple(dtype for dtype in ANY if dtype.is_integer)
BY_NAME = {dtype.name: dtype for dtype in ANY}
# One dtype of each kind and width class, where an operation is built from others that take every dtype themselves.
SAMPLE = tuple(BY_NAME[name] for name in ("bool", "u8", "i32", "i64", "bf16", "f32"))
WORDS = tuple(BY_NAME[name] for name in ("i32", "i64"))


@dataclass(frozen=True, slots=True)
class Argument:
    """One tensor argument; `dtype` None means the case's, and only such arguments lie in the case's layout."""

    shape: Shape
    domain: Domain | Below = Domain.MODERATE
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table.

    `rank` None takes every shape class, scalars included.  `symbolic` are the axes of the base shape that may be Dims
    (None: all).  A value may differ from the interpreter's by `ulps` of itself plus `absolute` epsilons, and where
    `reduces` is not 0 by that many epsilons (by the extent, for the reduced axis alone, see `judge`) of the same
    operation on absolute values.  Integers and bool are compared exactly whatever these say.
    """

    name: str
    apply: Callable[..., Any]
    arguments: Callable[[Shape], Sequence[Argument]]
    dtypes: tuple[DType, ...]
    rank: int | None = None
    symbolic: frozenset[int] | None = None
    accepts: Callable[[tuple[int, ...]], bool] = lambda shape: True
    ulps: float = 0.0
    absolute: float = 0.0
    reduces: bool = False

    def symbolic_axes(self, rank: int) -> frozenset[int]:
        return frozenset(range(rank)) if self.symbolic is None else self.symbolic


def of_same_shape(*domains: Domain) -> Callable[[Shape], list[Argument]]:
    """Arguments of the base shape."""
    return lambda shape: [Argument(shape, domain) for domain in domains]
