"""The grid's reductions, movements, joins, indexing, sorting and creation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.grid.domains import Below, Domain
from tests.grid.operation import ANY, BY_NAME, FLOATS, NUMBERS, SAMPLE, Argument, Operation, of_same_shape

import snell.frontend as sn
from snell.dtypes import bool_, i32, i64
from snell.symbolic import Shape, as_expr, as_size

__all__ = ["ARRAYS"]

FEW = tuple(BY_NAME[name] for name in ("i8", "i32", "f16", "f32"))
ROWS = frozenset({0})
NONE: frozenset[int] = frozenset()


def _nonempty(shape: tuple[int, ...]) -> bool:
    return 0 not in shape


def _last_nonempty(shape: tuple[int, ...]) -> bool:
    return shape[-1] != 0


def _short(shape: tuple[int, ...]) -> bool:
    """Networks of O(n log² n) steps: their size is tested on its own, not in the grid."""
    return shape[-1] <= 16


def _one(
    name: str,
    apply: Callable[..., Any],
    dtypes: tuple[Any, ...],
    rank: int,
    domain: Domain = Domain.MODERATE,
    **rest: Any,
) -> Operation:
    return Operation(name, apply, of_same_shape(domain), dtypes, rank=rank, **rest)


def _along(name: str, axis: int | None) -> Callable[..., Any]:
    """A reduction of the frontend over one axis."""
    return lambda x: getattr(sn, name)(x, axis)


REDUCTIONS = (
    *(
        _one(f"{name} {where}", _along(name, axis), dtypes, 3, domain, ulps=1.0, reduces=True)
        for name, dtypes, domain in (
            ("sum", ANY, Domain.PLAIN),
            ("mean", ANY, Domain.PLAIN),
            ("count_nonzero", SAMPLE, Domain.MODERATE),
            ("any", SAMPLE, Domain.MODERATE),
            ("all", SAMPLE, Domain.MODERATE),
        )
        for where, axis in (("rows", 0), ("columns", -1), ("all", None))
    ),
    *(
        _one(
            f"{name} {where}",
            _along(name, axis),
            ANY,
            3,
            Domain.MODERATE,
            accepts=_nonempty,
        )
        for name in ("max", "min", "argmax", "argmin")
        for where, axis in (("middle", 1), ("columns", -1), ("all", None))
    ),
    _one("sum special", lambda x: sn.sum(x, -1), FLOATS, 2, ulps=1.0, reduces=True),
    _one("sum keepdims", lambda x: sn.sum(x, (0, 2), keepdims=True), FEW, 3, Domain.PLAIN, ulps=1.0, reduces=True),
    _one("sum scalar", sn.sum, SAMPLE, 0, Domain.PLAIN, ulps=1.0),
    _one("max scalar", sn.max, SAMPLE, 0),
    _one("prod", lambda x: sn.prod(x, -1), FEW, 2, Domain.UNIT, symbolic=ROWS, ulps=16.0),
    _one(
        "var", lambda x: sn.var(x, -1), (*FLOATS, i32), 2, Domain.PLAIN, accepts=_last_nonempty, ulps=8.0, reduces=True
    ),
    _one("std", lambda x: sn.std(x, 0), (*FLOATS, i32), 2, Domain.PLAIN, ulps=8.0, absolute=8.0),
    _one("logsumexp", lambda x: sn.logsumexp(x, -1), FLOATS, 2, accepts=_last_nonempty, ulps=8.0, absolute=8.0),
    _one("softmax", sn.softmax, (*FLOATS, i32), 2, accepts=_last_nonempty, ulps=32.0),
    _one("softmax rows", lambda x: sn.softmax(x, 0), FLOATS, 2, accepts=_nonempty, ulps=32.0),
    _one("log_softmax", sn.log_softmax, (*FLOATS, i32), 2, accepts=_last_nonempty, ulps=8.0, absolute=32.0),
    _one("cumsum", lambda x: sn.cumsum(x, -1), ANY, 2, Domain.PLAIN, ulps=1.0, reduces=True),
    _one("cumsum exclusive", lambda x: sn.cumsum(x, 0, exclusive=True), FEW, 2, Domain.PLAIN, ulps=1.0, reduces=True),
    _one("cumsum flat", sn.cumsum, FEW, 2, Domain.PLAIN, symbolic=NONE, ulps=1.0, reduces=True),
    _one("cumprod", lambda x: sn.cumprod(x, -1), FEW, 2, Domain.UNIT, symbolic=ROWS, ulps=64.0),
    _one("cummax", lambda x: sn.cummax(x, -1), NUMBERS, 2, symbolic=ROWS),
    _one("cummin", lambda x: sn.cummin(x, 0), FEW, 2, symbolic=NONE),
)

SORTING = (
    _one("sort", sn.sort, SAMPLE, 2, symbolic=ROWS, accepts=_short),
    _one("sort descending", lambda x: sn.sort(x, 0, descending=True), FEW, 2, symbolic=NONE, accepts=_short),
    _one("argsort", sn.argsort, FEW, 2, symbolic=ROWS, accepts=_short),
    _one("topk", lambda x: sn.topk(x, 2), FEW, 2, symbolic=ROWS, accepts=lambda s: 2 <= s[-1] <= 16),
)

MOVEMENT = (
    _one("reshape", lambda x: sn.reshape(x, (-1,)), ANY, 3),
    _one("permute", lambda x: sn.permute(x, (2, 0, 1)), ANY, 3),
    _one("transpose", sn.transpose, FEW, 2),
    _one("movedim", lambda x: sn.movedim(x, 0, 2), FEW, 3),
    _one("flip", sn.flip, FEW, 2),
    _one("flip rows", lambda x: sn.flip(x, 0), FEW, 2),
    _one("roll", lambda x: sn.roll(x, 2, 1), FEW, 2, symbolic=ROWS),
    _one("roll flat", lambda x: sn.roll(x, -1), FEW, 2, symbolic=NONE),
    _one("repeat", lambda x: sn.repeat(x, 3, 1), FEW, 2),
    _one("repeat none", lambda x: sn.repeat(x, 0, 1), FEW, 2),
    _one("tile", lambda x: sn.tile(x, (2, 3)), FEW, 2),
    _one("expand", lambda x: sn.expand(sn.unsqueeze(x, 0), (3, -1, -1)), FEW, 2),
    _one("broadcast_to", lambda x: sn.broadcast_to(x, (2, *x.shape)), FEW, 1),
    _one(
        "broadcast_tensors",
        lambda x: sn.broadcast_tensors(x, sn.unsqueeze(x[..., 0:0].sum(-1), -1))[1],
        FEW,
        2,
        Domain.PLAIN,
    ),
    _one("squeeze", lambda x: sn.squeeze(sn.unsqueeze(x, 1), 1), FEW, 2),
    _one("unsqueeze", lambda x: sn.unsqueeze(x, (0, 2)), FEW, 2),
    _one("flatten", lambda x: sn.flatten(x, 1), FEW, 3),
    _one("unflatten", lambda x: sn.unflatten(sn.flatten(x), 0, x.shape), FEW, 3),
    _one("diagonal", sn.diagonal, FEW, 3, symbolic=ROWS),
    _one("window", lambda x: sn.window(x, 1, 3, 2), FEW, 2, symbolic=ROWS, accepts=lambda s: s[-1] >= 3),
    _one("window dilated", lambda x: sn.window(x, 1, 2, 1, 2), FEW, 2, symbolic=ROWS, accepts=lambda s: s[-1] >= 3),
    _one("tril", sn.tril, (*FEW, bool_), 3),
    _one("triu", lambda x: sn.triu(x, 1), (*FEW, bool_), 3),
    _one("pad", lambda x: sn.pad(x, [(1, 2), (0, 3)]), ANY, 2),
    _one("pad value", lambda x: sn.pad(x, [(2, 1)], 7), FEW, 2),
    _one("pad crop", lambda x: sn.pad(x, [(-1, 0), (0, 1)]), FEW, 2, symbolic=NONE, accepts=lambda s: s[0] > 0),
    *(
        _one(
            f"pad {mode}",
            lambda x, m=mode: sn.pad(x, [(1, 1)], 0, m),
            FEW,
            2,
            symbolic=ROWS,
            accepts=lambda s: s[-1] > 1,
        )
        for mode in ("edge", "reflect", "wrap")
    ),
    _one("slice step", lambda x: x[:, 1::2], FEW, 2, symbolic=ROWS),
    _one("slice backwards", lambda x: x[::-1, ::-3], FEW, 2, symbolic=ROWS),
    _one("slice integer", lambda x: x[0], FEW, 2, symbolic=frozenset({1}), accepts=lambda s: s[0] > 0),
    _one("slice nothing", lambda x: x[:, 1:1], FEW, 2, symbolic=ROWS, accepts=lambda s: s[-1] > 0),
    _one("slice last", lambda x: x[..., -1:], FEW, 2, symbolic=ROWS, accepts=lambda s: s[-1] > 0),
)

JOINING = (
    Operation(
        "concatenate",
        lambda a, b: sn.concatenate([a, b, a], -1),
        of_same_shape(Domain.MODERATE, Domain.MODERATE),
        ANY,
        rank=2,
    ),
    Operation(
        "concatenate rows",
        lambda a, b: sn.concatenate([a, b], 0),
        of_same_shape(Domain.MODERATE, Domain.MODERATE),
        FEW,
        rank=2,
    ),
    Operation(
        "stack",
        lambda a, b: sn.stack([a, b], 1),
        of_same_shape(Domain.MODERATE, Domain.MODERATE),
        (*FEW, bool_),
        rank=2,
    ),
    Operation(
        "stack scalars", lambda a, b: sn.stack([a, b]), of_same_shape(Domain.MODERATE, Domain.MODERATE), FEW, rank=0
    ),
    _one("split", lambda x: sn.split(x, 2, 1), FEW, 2, symbolic=ROWS),
    _one("chunk", lambda x: sn.chunk(sn.concatenate([x, x], 0), 2, 0), FEW, 2),
)


def _indices(shape: Shape, count: Shape, extent: Any, dtype: Any = i64) -> list[Argument]:
    return [Argument(shape), Argument(count, Below(extent), dtype)]


def _rows_nonempty(shape: tuple[int, ...]) -> bool:
    return shape[0] != 0


def _assigned(x: sn.Tensor, row: sn.Tensor) -> sn.Tensor:
    """An array with every second column zeroed, a row replaced in reverse, and a condition overwritten."""
    result = sn.reshape(x, x.shape)
    result[:, ::2] = 0
    result[:1, ::-1] = row
    result[result > x] = 1
    return result


INDEXING = (
    Operation(
        "take", lambda x, i: sn.take(x, i), lambda s: _indices(s, (3, 2), s[0]), ANY, rank=2, accepts=_rows_nonempty
    ),
    Operation(
        "take i32 columns",
        lambda x, i: sn.take(x, i, 1),
        lambda s: _indices(s, (7,), s[1], i32),
        FEW,
        rank=2,
        accepts=_last_nonempty,
    ),
    Operation(
        "take clip",
        lambda x, i: sn.take(x, i + 1, 1, mode="clip"),
        lambda s: _indices(s, (3,), s[1]),
        FEW,
        rank=2,
        accepts=_last_nonempty,
    ),
    Operation(
        "take zero", lambda x, i: sn.take(x, i + 1, 0, mode="zero"), lambda s: _indices(s, (3,), s[0]), FEW, rank=2
    ),
    Operation(
        "take wrap",
        lambda x, i: sn.take(x, i - 1, 0, mode="wrap"),
        lambda s: _indices(s, (3,), s[0]),
        FEW,
        rank=2,
        accepts=_rows_nonempty,
    ),
    Operation(
        "take_along_axis",
        sn.take_along_axis,
        lambda s: _indices(s, (s[0], 3), s[1]),
        FEW,
        rank=2,
        accepts=_last_nonempty,
    ),
    Operation(
        "gather",
        sn.gather,
        lambda s: _indices(s, (s[0], 3), s[1]),
        FEW,
        rank=2,
        accepts=_last_nonempty,
    ),
    Operation(
        "assignment",
        _assigned,
        lambda s: [Argument(s), Argument((s[1],))],
        FEW,
        rank=2,
        symbolic=frozenset({1}),
    ),
    Operation("embedding", sn.embedding, lambda s: _indices(s, (4,), s[0]), FEW, rank=2, accepts=_rows_nonempty),
    Operation("index arrays", lambda x, i: x[i, i], lambda s: _indices(s, (4,), 1), FEW, rank=2, accepts=_nonempty),
    Operation("one_hot", lambda i: sn.one_hot(i, 9), lambda s: [Argument(s, Below(9), i32)], (i32,)),
    Operation(
        "scatter",
        sn.scatter,
        lambda s: [Argument(s), Argument((2,), Below(s[0]), i64), Argument((2, *s[1:]))],
        FEW,
        rank=2,
        accepts=_rows_nonempty,
    ),
    Operation(
        "scatter_add",
        sn.scatter_add,
        lambda s: [Argument(s, Domain.PLAIN), Argument((3,), Below(s[0]), i64), Argument((3, *s[1:]), Domain.PLAIN)],
        FEW,
        rank=2,
        accepts=_rows_nonempty,
        ulps=1.0,
        absolute=8.0,
    ),
    Operation("nonzero", lambda m: sn.nonzero(m, 6), lambda s: [Argument(s)], (bool_, i32), rank=2, symbolic=ROWS),
    Operation(
        "update_rows",
        lambda cache, rows: sn.update_rows(cache, rows, 0),
        lambda s: [Argument(s), Argument((1, s[1]))],
        FEW,
        rank=2,
        symbolic=frozenset({1}),
        accepts=_rows_nonempty,
    ),
    Operation(
        "update_rows at",
        lambda cache, rows, start: sn.update_rows(cache, rows, start),
        lambda s: [Argument(s), Argument((1, s[1])), Argument((), Below(s[0]), i64)],
        FEW,
        rank=2,
        accepts=_rows_nonempty,
    ),
)


def _created(name: str, apply: Callable[[Any], Any], dtypes: tuple[Any, ...] = FEW, **rest: Any) -> Operation:
    """Operations that read an argument's shape and dtype alone."""
    return _one(name, apply, dtypes, 2, **rest)


CREATION = (
    _created("zeros", lambda x: sn.zeros(x.shape, x.dtype), ANY),
    _created("ones", lambda x: sn.ones(x.shape, x.dtype), ANY),
    _created("full", lambda x: sn.full(x.shape, 3, x.dtype)),
    _created("full_like", lambda x: sn.full_like(x, 2)),
    _created("zeros_like", sn.zeros_like),
    _created("ones_like", sn.ones_like),
    _created("iota", lambda x: sn.iota(x.shape[1], x.dtype), NUMBERS, accepts=lambda s: s[1] < 128),
    _created("arange", lambda x: sn.arange(2, as_size(as_expr(x.shape[0]) + 4)), (i64,)),
    _created("arange step", lambda x: sn.arange(1.0, -2.0, -0.5), (i64,)),
    _created("linspace", lambda x: sn.linspace(0, 1, 9, dtype=x.dtype), FLOATS, ulps=2.0, absolute=1.0),
    _created("eye", lambda x: sn.eye(x.shape[0], x.shape[1], 1, x.dtype), (*FEW, bool_)),
    _created("tri", lambda x: sn.tri(x.shape[0], x.shape[1], -1), (bool_,)),
    _created("size_of", lambda x: sn.size_of(x.shape[0]) + x, (i64,)),
    _created("array", lambda x: x + sn.array([[3]], "i32"), (i32,)),
    _created("as_tensor", lambda x: sn.as_tensor(2.5) * x, FLOATS, ulps=1.0),
)

# An operation whose results are its argument, a view of it, a constant, or one value twice.
OUTPUTS = (
    _one("output itself", lambda x: x, ANY, 2),
    _one("output twice", lambda x: (x + x, x + x, (x + x).T), FEW, 2, Domain.PLAIN),
    _one("output constant", lambda x: (sn.array(3.5), x), FEW, 2),
    _one("output inner", lambda x: (x * 2, x * 2 + 1, sn.sum(x * 2, 0)), FEW, 2, Domain.PLAIN),
)

ARRAYS: tuple[Operation, ...] = (*REDUCTIONS, *SORTING, *MOVEMENT, *JOINING, *INDEXING, *CREATION, *OUTPUTS)
