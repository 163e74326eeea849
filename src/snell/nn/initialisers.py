"""Initialisers: frozen values that make a parameter's first numbers, `initialiser(key, shape, dtype) -> Tensor`.

Any function of that form is one.  Fans follow the layouts of the layers: a matrix is (in, out), a kernel of three or
more axes (out, in, …).  Defaults and gains are PyTorch's (`torch.nn.init`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from snell.dtypes import f32
from snell.errors import ConfigError, ShapeError
from snell.frontend import (
    DTypeLike,
    Tensor,
    arange,
    astype,
    clip,
    equal,
    eye,
    full,
    random,
    reshape,
    sort,
    unsqueeze,
    where,
    zeros,
)
from snell.frontend.shapes import ShapeLike, as_shape, known_size
from snell.nn.inverse_error_function import inverse_erf
from snell.nn.orthonormal import orthonormal_rows

__all__ = [
    "Constant", "GlorotNormal", "GlorotUniform", "Identity", "Initialiser", "KaimingNormal", "KaimingUniform", "Normal",
    "Ones", "Orthogonal", "Sparse", "TruncatedNormal", "Uniform", "Zeros", "fans", "gain",
]  # fmt: skip


class Initialiser(Protocol):
    """What makes a parameter's first numbers."""

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        """A tensor of the shape and dtype, a function of the key (u32 (2,)) alone."""
        ...


def fans(shape: ShapeLike) -> tuple[int, int]:
    """(fan in, fan out): how many numbers a result is summed from, and in how many results an input occurs.

    Raises ShapeError for a shape of fewer than two axes.
    """
    sizes = _sizes(shape)
    if len(sizes) < 2:
        raise ShapeError(f"fans need a shape of at least two axes, received {sizes}; use Uniform, Normal or Zeros")
    if len(sizes) == 2:
        return sizes
    field = math.prod(sizes[2:])
    return sizes[1] * field, sizes[0] * field


def gain(nonlinearity: str, slope: float = 0.01) -> float:
    """By how much weights are larger where an activation follows: PyTorch's `calculate_gain`.

    `slope` is that of "leaky_relu".  Raises ConfigError for an activation that has no recommended gain.
    """
    known = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5.0 / 3.0,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1.0 + slope * slope)),
        "selu": 0.75,
    }
    if nonlinearity not in known:
        raise ConfigError(f"no gain is known for {nonlinearity!r}; expected one of {', '.join(known)}")
    return known[nonlinearity]


@dataclass(frozen=True)
class Constant:
    """One value everywhere."""

    value: float

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        del key
        return full(shape, self.value, dtype)


@dataclass(frozen=True)
class Zeros:
    """Zeros."""

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        return Constant(0.0)(key, shape, dtype)


@dataclass(frozen=True)
class Ones:
    """Ones."""

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        return Constant(1.0)(key, shape, dtype)


@dataclass(frozen=True)
class Uniform:
    """Uniform in [low, high)."""

    low: float = 0.0
    high: float = 1.0

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        return random.uniform(key, shape, dtype, self.low, self.high)


@dataclass(frozen=True)
class Normal:
    """Normal of a mean and a standard deviation."""

    mean: float = 0.0
    deviation: float = 1.0

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        return astype(random.normal(key, shape) * self.deviation + self.mean, dtype)


@dataclass(frozen=True)
class TruncatedNormal:
    """Normal of a mean and a standard deviation, drawn from what lies in [low, high]: the inverse of its distribution."""

    mean: float = 0.0
    deviation: float = 1.0
    low: float = -2.0
    high: float = 2.0

    def __post_init__(self) -> None:
        if not (self.low < self.high and self.deviation > 0):
            raise ConfigError(f"TruncatedNormal expected low < high and a deviation above 0, received {self}")

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        low, high = (math.erf((end - self.mean) / (self.deviation * math.sqrt(2.0))) for end in (self.low, self.high))
        drawn = inverse_erf(random.uniform(key, shape, f32, low, high)) * (self.deviation * math.sqrt(2.0)) + self.mean
        return astype(clip(drawn, self.low, self.high), dtype)


@dataclass(frozen=True)
class GlorotUniform:
    """Uniform ±gain·√(6 / (fan in + fan out)) (Glorot and Bengio, 2010)."""

    gain: float = 1.0

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        return _symmetric(self.gain * math.sqrt(6.0 / max(1, sum(fans(shape)))))(key, shape, dtype)


@dataclass(frozen=True)
class GlorotNormal:
    """Normal of deviation gain·√(2 / (fan in + fan out)) (Glorot and Bengio, 2010)."""

    gain: float = 1.0

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        return Normal(0.0, self.gain * math.sqrt(2.0 / max(1, sum(fans(shape)))))(key, shape, dtype)


@dataclass(frozen=True)
class KaimingUniform:
    """Uniform ±gain·√(3 / fan) (He et al., 2015); `mode` is "fan_in" or "fan_out", the gain that of the activation."""

    nonlinearity: str = "leaky_relu"
    slope: float = 0.0
    mode: str = "fan_in"

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        return _symmetric(math.sqrt(3.0) * _kaiming_deviation(self, shape))(key, shape, dtype)


@dataclass(frozen=True)
class KaimingNormal:
    """Normal of deviation gain / √fan (He et al., 2015); `mode` is "fan_in" or "fan_out"."""

    nonlinearity: str = "leaky_relu"
    slope: float = 0.0
    mode: str = "fan_in"

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        return Normal(0.0, _kaiming_deviation(self, shape))(key, shape, dtype)


@dataclass(frozen=True)
class Orthogonal:
    """`gain` times a random matrix with orthonormal rows or columns, whichever are fewer (Saxe et al., 2014).

    Axes after the first count as one.
    """

    gain: float = 1.0

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        sizes = _sizes(shape)
        if len(sizes) < 2:
            raise ShapeError(f"Orthogonal expected a shape of at least two axes, received {sizes}")
        rows, columns = sizes[0], math.prod(sizes[1:])
        few, many = min(rows, columns), max(rows, columns)
        found = orthonormal_rows(random.normal(key, (few, many)))
        matrix = found if rows <= columns else found.T
        return astype(reshape(matrix, sizes) * self.gain, dtype)


@dataclass(frozen=True)
class Identity:
    """`gain` on the diagonal; for a kernel (out, in, …), at its middle (`torch.nn.init.dirac_`): its result is its input.

    Raises ShapeError for a shape of fewer than two axes.
    """

    gain: float = 1.0

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        del key
        sizes = _sizes(shape)
        if len(sizes) < 2:
            raise ShapeError(f"Identity expected a shape of at least two axes, received {sizes}")
        matrix = eye(sizes[0], sizes[1]) * self.gain
        for size in sizes[2:]:
            middle = where(equal(arange(size), size // 2), 1.0, 0.0)
            matrix = unsqueeze(matrix, -1) * middle
        return astype(matrix, dtype)


@dataclass(frozen=True)
class Sparse:
    """Normal of mean 0, with the fraction `sparsity` of each column of a matrix 0, rounded up (Martens, 2010).

    A column holds what one result of a layer is summed from.
    """

    sparsity: float
    deviation: float = 0.01

    def __post_init__(self) -> None:
        if not 0.0 <= self.sparsity <= 1.0:
            raise ConfigError(f"Sparse expected a sparsity from 0 to 1, received {self.sparsity}")

    def __call__(self, key: Tensor, shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
        sizes = _sizes(shape)
        if len(sizes) != 2:
            raise ShapeError(f"Sparse expected the shape of a matrix, received {sizes}")
        values_key, places_key = random.split(key)
        empty = math.ceil(self.sparsity * sizes[0])
        if empty == sizes[0]:
            return zeros(sizes, dtype)
        drawn = random.bits(places_key, sizes)
        # The least of a column's random numbers are as many different places, each set of them as likely.
        least_kept = sort(drawn, axis=0)[empty : empty + 1]
        return astype(where(drawn < least_kept, 0.0, random.normal(values_key, sizes) * self.deviation), dtype)


def _symmetric(bound: float) -> Uniform:
    return Uniform(-bound, bound)


def _kaiming_deviation(initialiser: KaimingUniform | KaimingNormal, shape: ShapeLike) -> float:
    known = dict(zip(("fan_in", "fan_out"), fans(shape), strict=True))
    if initialiser.mode not in known:
        raise ConfigError(f"mode is 'fan_in' or 'fan_out', received {initialiser.mode!r}")
    return gain(initialiser.nonlinearity, initialiser.slope) / math.sqrt(max(1, known[initialiser.mode]))


def _sizes(shape: ShapeLike) -> tuple[int, ...]:
    """The shape of a parameter, whose sizes are known."""
    return tuple(known_size(size, "a parameter") for size in as_shape(shape))
