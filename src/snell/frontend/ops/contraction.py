"""Contractions: expanded views, a product, a sum.  The dtype stays, integers wrap, f16 accumulates in f32."""

from __future__ import annotations

import string
from collections.abc import Sequence

from snell.dtypes import bool_
from snell.errors import DTypeError, ShapeError
from snell.frontend.ops.elementwise import multiply
from snell.frontend.ops.movement import diagonal, movedim, permute, reshape, unsqueeze
from snell.frontend.ops.reduction import raw_sum
from snell.frontend.promotion import promote
from snell.frontend.shapes import normal_axis
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import Shape, Size, show_shape

__all__ = ["dot", "einsum", "matmul", "outer", "tensordot"]


def _numbers(*values: TensorLike) -> tuple[Tensor, ...]:
    tensors = promote(*values)
    if tensors[0].dtype == bool_:
        raise DTypeError("a contraction expected numbers, received bool; cast to an integer or float first")
    return tensors


def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """(…, m, k) @ (…, k, n) → (…, m, n), leading axes broadcasting; a vector is a row or a column and vanishes.

    Raises ShapeError for scalars, or where the two extents k differ.
    """
    x, y = _numbers(a, b)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            f"matmul expected vectors or matrices, received {show_shape(x.shape)} and {show_shape(y.shape)}"
        )
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise ShapeError(
            f"matmul expected equal inner extents, received {show_shape(x.shape)} @ {show_shape(y.shape)}: "
            f"{x.shape[-1]} and {inner}"
        )
    left = x if x.ndim > 1 else unsqueeze(x, 0)
    right = y if y.ndim > 1 else unsqueeze(y, 1)
    # (…, m, 1, k) · (…, 1, n, k), summed over k
    product = multiply(unsqueeze(left, -2), unsqueeze(right.mT, -3))
    result = raw_sum(product, -1)
    dropped = [k for k, vector in ((-2, x.ndim == 1), (-1, y.ndim == 1)) if vector]
    shape = [size for k, size in enumerate(result.shape) if k - result.ndim not in dropped]
    return reshape(result, shape)


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """Σ a·b of two vectors."""
    x, y = _numbers(a, b)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(
            f"dot expected two vectors, received {show_shape(x.shape)} and {show_shape(y.shape)}; use matmul"
        )
    return matmul(x, y)


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """(m,) and (n,) → (m, n) of all products."""
    x, y = _numbers(a, b)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"outer expected two vectors, received {show_shape(x.shape)} and {show_shape(y.shape)}")
    return multiply(unsqueeze(x, 1), y)


def tensordot(a: TensorLike, b: TensorLike, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Sum over pairs of axes: the last n of a with the first n of b, or the two lists given."""
    x, y = _numbers(a, b)
    if isinstance(axes, int):
        left, right = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        left = [normal_axis(k, x.ndim) for k in axes[0]]
        right = [normal_axis(k, y.ndim) for k in axes[1]]
    letters = iter(string.ascii_letters)
    names_x = [next(letters) for _ in x.shape]
    names_y = [names_x[left[right.index(k)]] if k in right else next(letters) for k in range(y.ndim)]
    kept = [c for c in names_x if c not in names_y] + [c for c in names_y if c not in names_x]
    return einsum(f"{''.join(names_x)},{''.join(names_y)}->{''.join(kept)}", x, y)


def einsum(equation: str, *operands: TensorLike) -> Tensor:
    """Einstein summation: `"bij,bjk->bik"`; `...` broadcasts; without `->` letters seen once, in alphabetical order.

    Written as products from left to right, each letter summed after its last use; the compiler orders them anew.
    Raises ShapeError for a malformed equation, or where a letter has two extents.
    """
    tensors = list(_numbers(*operands))
    inputs, output = _parsed(equation, [tensor.ndim for tensor in tensors])
    _check_letter_sizes(equation, inputs, [tensor.shape for tensor in tensors])
    names, result = "", None
    for k, (letters, tensor) in enumerate(zip(inputs, tensors, strict=True)):
        letters, tensor = _without_repeats(letters, tensor)
        if result is None:
            names, result = letters, tensor
        else:
            union = names + "".join(c for c in letters if c not in names)
            result = multiply(_aligned(result, names, union), _aligned(tensor, letters, union))
            names = union
        needed = set(output).union(*inputs[k + 1 :])
        summed = [j for j, c in enumerate(names) if c not in needed]
        result = raw_sum(result, summed) if summed else result
        names = "".join(c for c in names if c in needed)
    assert result is not None  # _parsed has checked that there is an operand
    return permute(result, [names.index(c) for c in output])


def _parsed(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Letters of each operand and of the output, `...` spelled out with unused letters."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks) or not ranks:
        raise ShapeError(f"einsum {equation!r} names {len(terms)} operands, received {len(ranks)}")
    free = [c for c in string.ascii_uppercase + string.ascii_lowercase if c not in text]
    widths = [
        rank - len(term.replace("...", "")) if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)
    ]
    dots = "".join(free[: max(widths)]) if max(widths) > 0 else ""
    inputs = [
        term.replace("...", dots[len(dots) - width :]) if width >= 0 else term
        for term, width in zip(terms, widths, strict=True)
    ]
    for term, rank in zip(inputs, ranks, strict=True):
        if len(term) != rank or not (term.isalpha() or not term):
            raise ShapeError(f"einsum {equation!r}: {term!r} does not name the {rank} axes of its operand")
    letters = "".join(inputs)
    implied = dots + "".join(sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1))
    output = right.replace("...", dots) if arrow else implied
    if len(set(output)) != len(output) or not set(output) <= set(letters):
        raise ShapeError(f"einsum {equation!r}: the output must name letters of the operands, each once")
    return inputs, output


def _check_letter_sizes(equation: str, inputs: list[str], shapes: list[Shape]) -> None:
    sizes: dict[str, Size] = {}
    for letters, shape in zip(inputs, shapes, strict=True):
        for letter, size in zip(letters, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if known == 1:
                sizes[letter] = size
            elif size not in (known, 1):
                raise ShapeError(f"einsum {equation!r}: {letter!r} has extents {known} and {size}")


def _without_repeats(letters: str, tensor: Tensor) -> tuple[str, Tensor]:
    """A letter that one operand names twice is its diagonal."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            tensor = diagonal(movedim(tensor, (first, second), (-2, -1)))
            rest = [c for j, c in enumerate(letters) if j not in (first, second)]
            letters = "".join(rest) + letter
    return letters, tensor


def _aligned(tensor: Tensor, letters: str, union: str) -> Tensor:
    """The tensor with its axes in the order of `union`, extent 1 where it lacks a letter."""
    ordered = permute(tensor, [letters.index(c) for c in union if c in letters])
    sizes = iter(ordered.shape)
    return reshape(ordered, [next(sizes) if c in letters else 1 for c in union])
