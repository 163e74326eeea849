"""Random differentiable programs of matrices: a recipe is data, which snell and PyTorch both follow.

Each step applies one operation to values that are already there.  Operations keep values small and, but for the edges
that both libraries treat alike, smooth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

import snell as sn

__all__ = ["OPERATIONS", "Operation", "Step", "followed", "recipes"]

F = torch.nn.functional


@dataclass(frozen=True, slots=True)
class Operation:
    """The operation of both libraries; `moves_rows` where the number of rows changes or has to be known."""

    apply: Callable[..., Any]
    judge: Callable[..., Any]
    operands: int = 1
    moves_rows: bool = False
    is_rounded: bool = False


def _places(x: Any) -> list[int]:
    """The last row, the first, and the last twice more."""
    return [x.shape[0] - 1, 0, x.shape[0] - 1, x.shape[0] - 1]


def _scan(x: Any, w: Any) -> Any:
    start = x.sum(0) * 0.1

    def step(carry: Any, row: Any) -> Any:
        following = sn.tanh(carry * w.mean(0) + row)
        return following, following * row

    last, rows = sn.scan(step, start, x)
    return rows + last


def _scan_judge(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    carry, rows = x.sum(0) * 0.1, []
    for row in x:
        carry = torch.tanh(carry * w.mean(0) + row)
        rows.append(carry * row)
    return torch.stack(rows) + carry


def _attention(q: Any, k: Any, v: Any) -> Any:
    return sn.softmax(q @ k.T / 2) @ v


OPERATIONS: dict[str, Operation] = {
    "tanh": Operation(sn.tanh, torch.tanh),
    "sine": Operation(sn.sin, torch.sin),
    "exp": Operation(lambda x: sn.exp(sn.tanh(x)), lambda x: torch.exp(torch.tanh(x))),
    "gelu": Operation(sn.gelu, F.gelu),
    "relu": Operation(sn.relu, torch.relu),
    "absolute": Operation(sn.absolute, torch.abs),
    "softplus": Operation(sn.softplus, F.softplus),
    "root": Operation(lambda x: sn.sqrt(x * x + 0.5), lambda x: torch.sqrt(x * x + 0.5)),
    "log": Operation(lambda x: sn.log1p(x * x), lambda x: torch.log1p(x * x)),
    "power": Operation(lambda x: (sn.absolute(x) + 0.5) ** 1.5 / 3, lambda x: (torch.abs(x) + 0.5) ** 1.5 / 3),
    "softmax": Operation(sn.softmax, lambda x: torch.softmax(x, -1)),
    "softmax of columns": Operation(lambda x: sn.softmax(x, 0), lambda x: torch.softmax(x, 0)),
    "log softmax": Operation(sn.log_softmax, lambda x: torch.log_softmax(x, -1)),
    "layer norm": Operation(lambda x: sn.layer_norm(x, epsilon=0.1), lambda x: F.layer_norm(x, x.shape[-1:], eps=0.1)),
    "log-sum-exp": Operation(
        lambda x: sn.logsumexp(x, -1, keepdims=True) * x, lambda x: torch.logsumexp(x, -1, keepdim=True) * x
    ),
    "greatest": Operation(lambda x: x.max(-1, keepdims=True) - x, lambda x: x.amax(-1, keepdim=True) - x),
    "variance": Operation(lambda x: x.var(0, keepdims=True) + x, lambda x: x.var(0, correction=0, keepdim=True) + x),
    "mean": Operation(lambda x: x - x.mean(-1, keepdims=True), lambda x: x - x.mean(-1, keepdim=True)),
    "cumulative sum": Operation(lambda x: sn.cumsum(x, -1) / 2, lambda x: torch.cumsum(x, -1) / 2),
    "flip": Operation(lambda x: sn.flip(x, 1), lambda x: torch.flip(x, (1,))),
    "roll": Operation(lambda x: sn.roll(x, 1, 1), lambda x: torch.roll(x, 1, 1)),
    "pad": Operation(lambda x: sn.pad(x, [(0, 0), (1, 1)]), lambda x: F.pad(x, (1, 1))),
    "every other": Operation(lambda x: x[:, ::2], lambda x: x[:, ::2]),
    "cast": Operation(lambda x: x.astype("f32").astype("f64"), lambda x: x.float().double(), is_rounded=True),
    "transpose": Operation(lambda x: x.T, lambda x: x.T, moves_rows=True),
    "reshape": Operation(lambda x: x.reshape(x.shape[1], x.shape[0]), lambda x: x.reshape(x.shape[::-1]), 1, True),
    "stack": Operation(lambda x: sn.concatenate([x, x * 2], 0), lambda x: torch.cat([x, x * 2]), moves_rows=True),
    "cumulative sum of columns": Operation(lambda x: sn.cumsum(x, 0) / 2, lambda x: torch.cumsum(x, 0) / 2, 1, True),
    "take": Operation(lambda x: sn.take(x, _places(x), 0), lambda x: x[_places(x)], moves_rows=True),
    "scatter": Operation(
        lambda x: sn.scatter_add(x, _places(x), x[:1].expand((4, x.shape[1])) * 2, axis=0),
        lambda x: x.index_add(0, torch.tensor(_places(x)), x[:1].expand(4, -1) * 2), 1, True,
    ),
    "remat": Operation(
        lambda x: sn.remat(lambda y: sn.tanh(sn.softmax(y) * y))(x), lambda x: torch.tanh(torch.softmax(x, -1) * x)
    ),
    "add": Operation(lambda a, b: a + b, lambda a, b: a + b, 2),
    "multiply": Operation(lambda a, b: a * sn.tanh(b), lambda a, b: a * torch.tanh(b), 2),
    "divide": Operation(lambda a, b: a / (1 + b * b), lambda a, b: a / (1 + b * b), 2),
    "where": Operation(lambda a, b: sn.where(a < b, a, b * 2), lambda a, b: torch.where(a < b, a, b * 2), 2),
    "product": Operation(lambda a, b: a @ b.T @ b / 4, lambda a, b: a @ b.T @ b / 4, 2),
    "einsum": Operation(
        lambda a, b: sn.einsum("ij,kj->ik", a, b) @ a / 4, lambda a, b: torch.einsum("ij,kj->ik", a, b) @ a / 4, 2
    ),
    "attention": Operation(_attention, lambda q, k, v: torch.softmax(q @ k.T / 2, -1) @ v, 3),
    "scan": Operation(_scan, _scan_judge, 2),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """The operation of one step and the values that it takes, by number."""

    name: str
    operands: tuple[int, ...]


@st.composite
def recipes(draw: st.DrawFn, *, moving_rows: bool, least: int = 3, most: int = 8) -> tuple[Step, ...]:
    """Steps on two matrices, numbers 0 and 1; step k makes number 2 + k."""
    names = [name for name, operation in OPERATIONS.items() if moving_rows or not operation.moves_rows]
    steps: list[Step] = []
    for k in range(draw(st.integers(least, most))):
        name = draw(st.sampled_from(names))
        recent = st.integers(max(0, k - 2), k + 1)
        steps.append(Step(name, tuple(draw(recent) for _ in range(OPERATIONS[name].operands))))
    return tuple(steps)


def followed(recipe: Sequence[Step], values: Sequence[Any], *, judged: bool) -> Any:
    """A number that depends on every step, as snell computes it, or PyTorch where `judged`."""
    made = list(values)
    for step in recipe:
        first, *others = (made[number] for number in step.operands)
        operation = OPERATIONS[step.name]
        fitting = [first, *(_like(first, other) for other in others)]
        made.append((operation.judge if judged else operation.apply)(*fitting))
    sines = torch.sin if judged else sn.sin
    return sum(((sines(value + 0.3) * value).mean() for value in made[2:]), made[0].sum() * 0.1)


def _like(first: Any, other: Any) -> Any:
    """The other value in the first one's shape: averaged along an axis that differs, and repeated."""
    if tuple(other.shape) == tuple(first.shape):
        return other
    for axis in (0, 1):
        if other.shape[axis] != first.shape[axis]:
            other = other.mean(axis)[(None,) * (1 - axis) + (slice(None),) + (None,) * axis]
    return first * 0 + other
