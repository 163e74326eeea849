"""Recurrences: a cell along a sequence, in one direction or in both, as a loop whose body is compiled once.

    Recurrence(LSTMCell(64, 128), return_sequence=False)
    Chain(Bidirectional(GRUCell(64, 128)), Bidirectional(GRUCell(256, 128)))

Sequences are (…, time, features); the time may be a Dim.  Several in a `Chain` are a stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from snell.errors import ConfigError, ShapeError, SnellError
from snell.frontend import Tensor, concatenate, flip, movedim, scan
from snell.nn.cell import Cell
from snell.nn.checking import expect_rank
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State

__all__ = ["Bidirectional", "Recurrence"]


@dataclass(frozen=True)
class Recurrence(Layer):
    """A cell at each step of a sequence (…, time, input_size): all outputs (…, time, hidden_size), in the sequence's order, or
    without `return_sequence` the last one (…, hidden_size).

    x is a sequence, which begins with a carry of zeros, or a pair (sequence, carry); with `return_carry` the result is a
    pair (outputs, carry), so that a long sequence can be walked in pieces.  `reverse` walks from the end, so the last output is
    that of the first element.  Parameters are the cell's, under `cell`.

    Raises ShapeError for a sequence or a carry that the cell does not take.
    """

    cell: Cell
    _: KW_ONLY
    return_sequence: bool = True
    reverse: bool = False
    return_carry: bool = False

    def __post_init__(self) -> None:
        _expect_cell(self, self.cell)

    def with_children(self, children: Mapping[str, Layer]) -> Recurrence:
        """Itself: a cell is not called as a layer here, so nothing can stand in its place."""
        return self

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        sequence, carry = x if isinstance(x, tuple) else (x, None)
        given = expect_rank(self, sequence, 2, f"(…, time, {self.cell.input_size})")
        outputs, carry = _walked(
            self, "cell", given, carry, params, reverse=self.reverse, return_sequence=self.return_sequence
        )
        return (outputs, carry) if self.return_carry else outputs, dict(state)


@dataclass(frozen=True)
class Bidirectional(Layer):
    """Two cells along a sequence, one from each end (Schuster and Paliwal, 1997), their outputs side by side.

    (…, time, input_size) → (…, time, hidden sizes added), or without `return_sequence` the last output of each direction.
    `backward` defaults to a cell like `forward`; each has parameters of its own, under `forward` and `backward`.  x may be a
    pair (sequence, (carry, carry)), and with `return_carry` the result is a pair (outputs, (carry, carry)).

    Raises ConfigError for cells of two input sizes, ShapeError for a sequence or carries that the cells do not take.
    """

    forward: Cell
    backward: Cell | None = None
    _: KW_ONLY
    return_sequence: bool = True
    return_carry: bool = False

    def __post_init__(self) -> None:
        if self.backward is None:
            object.__setattr__(self, "backward", self.forward)
        for cell in (self.forward, self.backward):
            _expect_cell(self, cell)
        if self.forward.input_size != self.backward.input_size:  # type: ignore[union-attr]  # set above
            raise ConfigError(
                f"Bidirectional expected cells of one input_size, received {label(self.forward)} and "
                f"{label(self.backward)}"  # type: ignore[arg-type]  # set above
            )

    def with_children(self, children: Mapping[str, Layer]) -> Bidirectional:
        """Itself: a cell is not called as a layer here, so nothing can stand in its place."""
        return self

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        sequence, carries = x if isinstance(x, tuple) else (x, (None, None))
        if not isinstance(carries, tuple) or len(carries) != 2:
            raise ShapeError(f"{label(self)} expected a pair of carries beside its sequence, received {carries!r}")
        given = expect_rank(self, sequence, 2, f"(…, time, {self.forward.input_size})")
        found = [
            _walked(self, name, given, carry, params, reverse=reverse, return_sequence=self.return_sequence)
            for name, carry, reverse in (("forward", carries[0], False), ("backward", carries[1], True))
        ]
        outputs = concatenate([one for one, _ in found], -1)
        return (outputs, tuple(carry for _, carry in found)) if self.return_carry else outputs, dict(state)


def _walked(
    layer: Recurrence | Bidirectional,
    name: str,
    sequence: Tensor,
    carry: Any,
    params: Params,
    *,
    reverse: bool,
    return_sequence: bool,
) -> tuple[Tensor, Any]:
    """The outputs and the last carry of the cell of this name."""
    cell: Cell = getattr(layer, name)
    own = params[name]
    try:
        projected = cell.projected(sequence, own)
        rows = movedim(projected, -2, 0)
        if carry is None:
            carry = cell.initial_carry(rows.shape[1:-1], rows.dtype)
        cell.expect_carry(carry, rows.shape[1:-1])
    except SnellError as error:
        error.add_note(f"in layer {name!r}")
        raise

    def body(before: Any, row: Tensor) -> tuple[Any, Tensor | None]:
        following = cell.step(row, before, own)
        return following, cell.output(following) if return_sequence else None

    last, outputs = scan(body, carry, flip(rows, 0) if reverse else rows)
    if not return_sequence:
        return cell.output(last), last
    return movedim(flip(outputs, 0) if reverse else outputs, 0, -2), last


def _expect_cell(layer: Layer, cell: Any) -> None:
    if not isinstance(cell, Cell):
        raise ConfigError(f"{type(layer).__name__} expected a Cell, such as LSTMCell(64, 128); received {cell!r}")
