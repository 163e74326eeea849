"""InstanceNorm: each channel of each sample normalised over its positions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from snell.dtypes import f32
from snell.errors import ShapeError
from snell.frontend import DTypeLike, Tensor, TensorLike, batch_norm, instance_norm, mean, var
from snell.frontend.ops.elementwise import wide
from snell.nn.affine import affine_leaves, affine_parameters
from snell.nn.checking import expect_positive, expect_rank, expect_size
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State
from snell.nn.running_statistics import initial_statistics, known_statistics, moved_statistics
from snell.symbolic import as_size, product, show_shape

__all__ = ["InstanceNorm"]


@dataclass(frozen=True)
class InstanceNorm(Layer):
    """(n, num_features, positions…) normalised over the positions of each channel of each sample (Ulyanov et al., 2016).

    One to three axes of positions.  Parameters where `affine` (off by default, as in PyTorch): `weight` (ones) and `bias`
    (zeros), (num_features,).  With `track_running_stats` the state is that of BatchNorm, moved by the means over samples,
    and normalises where the layer is not trained.

    Raises ShapeError for another number of channels, for no positions, or for a single one in training.
    """

    num_features: int
    epsilon: float = 1e-5
    momentum: float | None = 0.1
    _: KW_ONLY
    affine: bool = False
    track_running_stats: bool = False
    dtype: DTypeLike = f32

    def __post_init__(self) -> None:
        expect_positive(self, num_features=self.num_features)

    def parameters(self, key: Tensor) -> dict[str, Any]:
        return affine_parameters((self.num_features,), self.dtype, self.affine, self.affine)

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return dict(initial_statistics(self.num_features)) if self.track_running_stats else {}

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        shape = f"(n, {self.num_features}, positions…)"
        given = expect_rank(self, expect_size(self, x, 1, self.num_features, shape), 3, shape)
        weight, bias = affine_leaves(self, params, (self.num_features,), self.affine, self.affine)
        if self.track_running_stats and not train:
            average, variance = known_statistics(self, state, self.num_features)
            return batch_norm(given, average, variance, weight, bias, epsilon=self.epsilon), dict(state)
        count = as_size(product(list(given.shape[2:])))
        if train and count == 1:
            raise ShapeError(
                f"{label(self)} expected more than one position a channel in training, "
                f"received {given.dtype}{show_shape(given.shape)}"
            )
        y = instance_norm(given, weight, bias, epsilon=self.epsilon)
        if not self.track_running_stats:
            return y, dict(state)
        values, positions = wide(given), tuple(range(2, given.ndim))
        average, variance = mean(values, (0, *positions)), mean(var(values, positions), 0)
        return y, moved_statistics(self, state, average, variance, count, self.momentum)
