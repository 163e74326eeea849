"""BatchNorm: channels normalised over a batch in training, and by running statistics afterwards."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from snell.dtypes import f32
from snell.errors import ShapeError
from snell.frontend import DTypeLike, Tensor, TensorLike, batch_norm, mean, square
from snell.frontend.ops.elementwise import wide
from snell.nn.affine import affine_leaves, affine_parameters
from snell.nn.checking import expect_positive, expect_size
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State
from snell.nn.running_statistics import initial_statistics, known_statistics, moved_statistics
from snell.symbolic import as_size, product, show_shape

__all__ = ["BatchNorm"]


@dataclass(frozen=True)
class BatchNorm(Layer):
    """(n, num_features, positions…) normalised a channel, with none to three axes of positions (Ioffe and Szegedy, 2015).

    In training by the mean and variance of the batch; otherwise by running ones, each moved towards the batch's by the
    fraction `momentum` a call (None: the average of all calls).  The running variance is of n - 1, as in PyTorch.

    Parameters where `affine`: `weight` (ones) and `bias` (zeros), (num_features,).  State where `track_running_stats`:
    `running_mean` (zeros), `running_var` (ones), f32 (num_features,), and `num_batches_tracked`, an i64 scalar; without it
    the batch's own statistics always count.

    Raises ShapeError for another number of channels, or for one number a channel in training.
    """

    num_features: int
    epsilon: float = 1e-5
    momentum: float | None = 0.1
    _: KW_ONLY
    affine: bool = True
    track_running_stats: bool = True
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
        given = expect_size(self, x, 1, self.num_features, f"(n, {self.num_features}, …)")
        weight, bias = affine_leaves(self, params, (self.num_features,), self.affine, self.affine)
        if self.track_running_stats and not train:
            average, variance = known_statistics(self, state, self.num_features)
            return batch_norm(given, average, variance, weight, bias, epsilon=self.epsilon), dict(state)
        axes = tuple(axis for axis in range(given.ndim) if axis != 1)
        count = as_size(product([given.shape[axis] for axis in axes]))
        if train and count == 1:
            raise ShapeError(
                f"{label(self)} expected more than one number a channel in training, "
                f"received {given.dtype}{show_shape(given.shape)}"
            )
        values = wide(given)
        centre = mean(values, axes, keepdims=True)
        average, variance = centre.reshape(self.num_features), mean(square(values - centre), axes)
        y = batch_norm(given, average, variance, weight, bias, epsilon=self.epsilon)
        if not self.track_running_stats:
            return y, dict(state)
        return y, moved_statistics(self, state, average, variance, count, self.momentum)
