"""How the planes of each quantisation become values: arithmetic that runs on NumPy arrays and on traced tensors alike.

A recipe takes the arrays of a tensor's planes by name, all shaped (row, block, …), and returns float32 values in the
order of the tensor. It uses nothing but ``+ - *``, ``reshape`` and ``astype``, so that tracing it yields the graph
expression that decodes the weights inside of a kernel. Values of 5 and 6 bits are ``16 * high + low``. The order of
the multiplications is that of ggml, so the results equal ggml's bit for bit.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, Self, TypeVar

from snell.importers.gguf.quantisation import Quantisation

__all__ = ["RECIPES", "ArrayLike", "decode"]


class ArrayLike(Protocol):
    """What a recipe needs of an array: elementwise arithmetic with broadcasting, and changes of shape and dtype."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __add__(self, other: Self | float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def reshape(self, *shape: int) -> Self: ...
    def astype(self, dtype: str, /) -> Self: ...


A = TypeVar("A", bound=ArrayLike)
Planes = Mapping[str, A]
Recipe = Callable[[Planes[ArrayLike]], ArrayLike]


def decode(quantisation: Quantisation, planes: Mapping[str, A], shape: tuple[int, ...]) -> A:
    """The float32 tensor of ``shape`` that the planes hold."""
    recipe: Callable[[Planes[A]], A] = RECIPES[quantisation]  # type: ignore[assignment]  # a recipe is generic over A
    return recipe(planes).reshape(*shape)


def _float(array: A) -> A:
    return array.astype("float32")


def _beside(array: A, *inner: int) -> A:
    """A per-block (or per-group) array, viewed so that it broadcasts over ``inner`` trailing dimensions."""
    rows, blocks = array.shape[0], array.shape[1]
    return _float(array).reshape(rows, blocks, *inner)


def _dense(planes: Planes[A]) -> A:
    return _float(planes["value"])


def _q4_0(planes: Planes[A]) -> A:
    return _beside(planes["scale"], 1, 1) * (_float(planes["low"]) - 8.0)


def _q4_1(planes: Planes[A]) -> A:
    return _beside(planes["scale"], 1, 1) * _float(planes["low"]) + _beside(planes["least"], 1, 1)


def _five_bits(planes: Planes[A]) -> A:
    """``high`` is stored as (2, 2 bytes, 8 bits), ``low`` as (2, 16)."""
    return _beside(planes["high"], 2, 16) * 16.0 + _float(planes["low"])


def _q5_0(planes: Planes[A]) -> A:
    return _beside(planes["scale"], 1, 1) * (_five_bits(planes) - 16.0)


def _q5_1(planes: Planes[A]) -> A:
    return _beside(planes["scale"], 1, 1) * _five_bits(planes) + _beside(planes["least"], 1, 1)


def _q8_0(planes: Planes[A]) -> A:
    return _beside(planes["scale"], 1) * _float(planes["value"])


def _q2_k(planes: Planes[A]) -> A:
    group_scale = _beside(planes["group_scale"], 16)
    group_least = (_beside(planes["group_byte"], 16) - group_scale) * 0.0625
    scale = _beside(planes["scale"], 1) * group_scale
    least = _beside(planes["least"], 1) * group_least
    return _beside(scale, 2, 4, 2, 1) * _float(planes["low"]) - _beside(least, 2, 4, 2, 1)


def _q3_k(planes: Planes[A]) -> A:
    # The group scales come unpacked to u8 (``packed_scales``) and are stored with 32 added; a set high bit means +4.
    scale = _beside(planes["scale"], 1) * (_beside(planes["group_scale"], 16) - 32.0)
    return _beside(scale, 2, 4, 2, 1) * (_float(planes["high"]) * 4.0 + _float(planes["low"]) - 4.0)


def _scaled_groups(planes: Planes[A], value: A) -> A:
    """Q4_K and Q5_K: eight groups of 32 values, each with a scale and a least value (``packed_scales``)."""
    scale = _beside(planes["scale"], 1) * _beside(planes["group_scale"], 8)
    least = _beside(planes["least"], 1) * _beside(planes["group_least"], 8)
    return _beside(scale, 4, 2, 1) * value - _beside(least, 4, 2, 1)


def _q4_k(planes: Planes[A]) -> A:
    return _scaled_groups(planes, _float(planes["low"]))


def _q5_k(planes: Planes[A]) -> A:
    return _scaled_groups(planes, _float(planes["high"]) * 16.0 + _float(planes["low"]))


def _q6_k(planes: Planes[A]) -> A:
    value = _float(planes["high"]) * 16.0 + _float(planes["low"]) - 32.0
    scale = _beside(planes["scale"], 1) * _beside(planes["group_scale"], 16)
    return _beside(scale, 2, 2, 2, 2, 1) * value


RECIPES: Mapping[Quantisation, Recipe] = {
    Quantisation.F32: _dense,
    Quantisation.F16: _dense,
    Quantisation.BF16: _dense,
    Quantisation.Q4_0: _q4_0,
    Quantisation.Q4_1: _q4_1,
    Quantisation.Q5_0: _q5_0,
    Quantisation.Q5_1: _q5_1,
    Quantisation.Q8_0: _q8_0,
    Quantisation.Q2_K: _q2_k,
    Quantisation.Q3_K: _q3_k,
    Quantisation.Q4_K: _q4_k,
    Quantisation.Q5_K: _q5_k,
    Quantisation.Q6_K: _q6_k,
}
