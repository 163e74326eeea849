"""Cells: one step of a recurrent network, as what the input contributes and what is made of it and the carry.

The input's part of all steps is one product before the loop; only what needs the carry runs inside of it.  Formulas, the order
of gates and the initial numbers are PyTorch's; weights are (in, gates·hidden_size), the transposes of PyTorch's.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

from snell import trees
from snell.dtypes import f32
from snell.errors import ShapeError
from snell.frontend import DTypeLike, Tensor, TensorLike, as_tensor, matmul, sigmoid, split, tanh, zeros
from snell.frontend.shapes import SizeLike
from snell.nn.checking import expect_positive, expect_size
from snell.nn.initialisers import Initialiser, Uniform
from snell.nn.keys import named_key
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State
from snell.nn.linear import Activation
from snell.symbolic import show_shape

__all__ = ["Cell", "GRUCell", "LSTMCell", "RNNCell"]


@dataclass(frozen=True)
class Cell(Layer):
    """One step over time: (…, input_size) and a carry → the next carry.

    As a layer its x is an input, met by a carry of zeros, or a pair (input, carry), and its result is the next carry;
    `Recurrence` walks it along a sequence.

    Parameters: `weight_ih` (input_size, gates·hidden_size), `weight_hh` (hidden_size, gates·hidden_size), and `bias_ih` and
    `bias_hh` (gates·hidden_size,), uniform in ±1/√hidden_size.  Raises ShapeError for an input or a carry of another width.
    """

    input_size: int
    hidden_size: int
    _: KW_ONLY
    bias: bool = True
    weight_init: Initialiser | None = None
    bias_init: Initialiser | None = None
    dtype: DTypeLike = f32

    gates: ClassVar[int]
    """Vectors of hidden_size that a step computes from its input."""

    def __post_init__(self) -> None:
        expect_positive(self, input_size=self.input_size, hidden_size=self.hidden_size)

    @abc.abstractmethod
    def step(self, projected: Tensor, carry: Any, params: Params) -> Any:
        """The next carry, from `projected` of the step's input (…, gates·hidden_size) and the carry."""

    @abc.abstractmethod
    def initial_carry(self, leading: Sequence[SizeLike], dtype: DTypeLike) -> Any:
        """The carry before the first step: zeros (*leading, hidden_size), as a tree that `step` takes."""

    @abc.abstractmethod
    def output(self, carry: Any) -> Tensor:
        """What a step shows of its carry: (…, hidden_size)."""

    @abc.abstractmethod
    def projected(self, x: TensorLike, params: Params) -> Tensor:
        """The input's part of the gates, for one step or for all at once: (…, input_size) → (…, gates·hidden_size)."""

    @final
    def parameters(self, key: Tensor) -> dict[str, Any]:
        bound = 1.0 / math.sqrt(self.hidden_size)
        usual, width = Uniform(-bound, bound), self.gates * self.hidden_size
        weights = {"weight_ih": (self.input_size, width), "weight_hh": (self.hidden_size, width)}
        biases = {"bias_ih": (width,), "bias_hh": (width,)} if self.bias else {}
        first, second = self.weight_init or usual, self.bias_init or usual
        made = {name: first(named_key(key, name), shape, self.dtype) for name, shape in weights.items()}
        return made | {name: second(named_key(key, name), shape, self.dtype) for name, shape in biases.items()}

    @final
    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        given, carry = x if isinstance(x, tuple) else (x, None)
        projected = self.projected(given, params)
        if carry is None:
            carry = self.initial_carry(projected.shape[:-1], projected.dtype)
        self.expect_carry(carry, projected.shape[:-1])
        return self.step(projected, carry, params), dict(state)

    @final
    def expect_carry(self, carry: Any, leading: Sequence[SizeLike]) -> None:
        """ShapeError unless a carry is a tree like the initial one, of the input's leading axes and the cell's width."""
        wanted, received = _shapes(self.initial_carry(leading, self.dtype)), _shapes(carry)
        if received != wanted:
            raise ShapeError(f"{label(self)} expected a carry of shape {wanted} beside its input, received {received}")


@final
@dataclass(frozen=True)
class RNNCell(Cell):
    """h' = tanh(x·W_ih + b_ih + h·W_hh + b_hh) (Elman, 1990), or another `nonlinearity`; the carry is h."""

    nonlinearity: Activation = tanh

    gates = 1

    def projected(self, x: TensorLike, params: Params) -> Tensor:
        return _with_biases(_product(self, x, params), self, params)

    def step(self, projected: Tensor, carry: Any, params: Params) -> Any:
        return self.nonlinearity(projected + matmul(carry, params["weight_hh"]))

    def initial_carry(self, leading: Sequence[SizeLike], dtype: DTypeLike) -> Any:
        return zeros((*leading, self.hidden_size), dtype)

    def output(self, carry: Any) -> Tensor:
        return carry


@final
@dataclass(frozen=True)
class LSTMCell(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; with a forget gate, Gers et al., 2000); the carry is (h, c).

    i, f, g, o = the parts of x·W_ih + b_ih + h·W_hh + b_hh;  c' = σ(f)·c + σ(i)·tanh(g);  h' = σ(o)·tanh(c').
    """

    gates = 4

    def projected(self, x: TensorLike, params: Params) -> Tensor:
        return _with_biases(_product(self, x, params), self, params)

    def step(self, projected: Tensor, carry: Any, params: Params) -> Any:
        hidden, memory = carry
        gates = projected + matmul(hidden, params["weight_hh"])
        write, keep, proposed, show = split(gates, [self.hidden_size] * 4, -1)
        following = sigmoid(keep) * memory + sigmoid(write) * tanh(proposed)
        return sigmoid(show) * tanh(following), following

    def initial_carry(self, leading: Sequence[SizeLike], dtype: DTypeLike) -> Any:
        start = zeros((*leading, self.hidden_size), dtype)
        return start, start

    def output(self, carry: Any) -> Tensor:
        return carry[0]


@final
@dataclass(frozen=True)
class GRUCell(Cell):
    """The gated recurrent unit (Cho et al., 2014), with PyTorch's reset after the product; the carry is h.

    r, z, n = the parts of x·W_ih + b_ih, and r', z', n' of h·W_hh + b_hh;  h' = (1 - z")·tanh(n + r"·n') + z"·h with
    r" = σ(r + r') and z" = σ(z + z').
    """

    gates = 3

    def projected(self, x: TensorLike, params: Params) -> Tensor:
        y = _product(self, x, params)
        return y + params["bias_ih"] if self.bias else y

    def step(self, projected: Tensor, carry: Any, params: Params) -> Any:
        recurrent = matmul(carry, params["weight_hh"])
        if self.bias:
            recurrent = recurrent + params["bias_hh"]
        parts = [self.hidden_size] * 3
        reset, update, proposed = split(projected, parts, -1)
        reset_by_h, update_by_h, proposed_by_h = split(recurrent, parts, -1)
        kept = sigmoid(update + update_by_h)
        candidate = tanh(proposed + sigmoid(reset + reset_by_h) * proposed_by_h)
        return (1 - kept) * candidate + kept * carry

    def initial_carry(self, leading: Sequence[SizeLike], dtype: DTypeLike) -> Any:
        return zeros((*leading, self.hidden_size), dtype)

    def output(self, carry: Any) -> Tensor:
        return carry


def _shapes(carry: Any) -> str:
    """The shape of a carry, or the tree of the shapes of several tensors."""
    return str(trees.map(lambda leaf: show_shape(as_tensor(leaf).shape), carry)).replace("'", "")


def _product(cell: Cell, x: TensorLike, params: Params) -> Tensor:
    given = expect_size(cell, x, -1, cell.input_size, f"(…, {cell.input_size})")
    return matmul(given, params["weight_ih"])


def _with_biases(x: Tensor, cell: Cell, params: Params) -> Tensor:
    """Both biases at once, where the recurrent one is added to nothing but sums."""
    return x + (params["bias_ih"] + params["bias_hh"]) if cell.bias else x
