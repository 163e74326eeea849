"""The grid's products, convolutions, pools, normalisations, attention and random numbers."""

from __future__ import annotations

from typing import Any

from tests.grid.domains import Below, Domain
from tests.grid.operation import BY_NAME, FLOATS, NUMBERS, Argument, Operation, of_same_shape

import snell.frontend as sn
from snell.dtypes import bool_, f32, i64, u32
from snell.symbolic import Shape

__all__ = ["NETWORKS"]

PLAIN = Domain.PLAIN
PRODUCTS = tuple(BY_NAME[name] for name in ("i8", "i32", "u8", "i64", "f16", "bf16", "f32", "f64"))
FEW = tuple(BY_NAME[name] for name in ("i32", "bf16", "f32", "f64"))
BATCH = frozenset({0})
CAUSAL: dict[str, Any] = {"is_causal": True}


def _plain(*shapes: Shape) -> list[Argument]:
    return [Argument(shape, PLAIN) for shape in shapes]


def _product(name: str, apply: Any, shapes: Any, dtypes: Any = FEW, rank: int = 2, **rest: Any) -> Operation:
    return Operation(name, apply, lambda s: _plain(*shapes(s)), dtypes, rank=rank, ulps=1.0, reduces=True, **rest)


CONTRACTIONS = (
    _product("matmul", sn.matmul, lambda s: (s, (s[1], 6)), PRODUCTS),
    _product("matmul square", sn.matmul, lambda s: (s, s[::-1]), PRODUCTS),
    _product("matmul batched", sn.matmul, lambda s: (s, (s[0], s[2], 4)), rank=3),
    _product("matmul vector", sn.matmul, lambda s: (s, (s[1],))),
    _product("vector matmul", sn.matmul, lambda s: ((s[0],), s)),
    _product("dot", sn.dot, lambda s: (s, s), rank=1),
    _product("outer", sn.outer, lambda s: (s, (3,)), rank=1),
    _product("tensordot", lambda a, b: sn.tensordot(a, b, 2), lambda s: (s, (s[1], s[2], 3)), rank=3),
    _product("einsum", lambda a, b: sn.einsum("bij,bkj->bik", a, b), lambda s: (s, s), rank=3),
    _product("einsum trace", lambda a, b: sn.einsum("ij,ij->", a, b), lambda s: (s, s)),
    _product(
        "einsum three", lambda a, b, c: sn.einsum("ij,jk,k->i", a, b, c), lambda s: (s, (s[1], 3), (3,)), absolute=64.0
    ),
    _product("matmul add relu", lambda a, b: sn.relu(a @ b + 1), lambda s: (s, (s[1], 6))),
    _product(
        "wrapping product",
        lambda a, b, c: a @ (b + c),
        lambda s: (s, (s[1], 4), (s[1], 4)),
        (BY_NAME["i32"], BY_NAME["u8"]),
    ),
)


def _spatial(size: int) -> Any:
    return lambda shape: all(extent >= size for extent in shape[2:])


CONVOLUTIONS = (
    _product(
        "conv1d",
        lambda x, w: sn.conv1d(x, w, padding=1),
        lambda s: (s, (4, s[1], 3)),
        rank=3,
        symbolic=BATCH,
        accepts=_spatial(1),
    ),
    _product(
        "conv1d stride",
        lambda x, w: sn.conv1d(x, w, stride=2),
        lambda s: (s, (4, s[1], 2)),
        rank=3,
        symbolic=BATCH,
        accepts=_spatial(2),
    ),
    _product(
        "conv2d",
        lambda x, w, b: sn.conv2d(x, w, b, padding=1),
        lambda s: (s, (2, s[1], 3, 3), (2,)),
        rank=4,
        symbolic=BATCH,
        accepts=_spatial(1),
    ),
    _product(
        "conv2d same",
        lambda x, w: sn.conv2d(x, w, padding="same", dilation=2),
        lambda s: (s, (2, s[1], 3, 2)),
        rank=4,
        symbolic=BATCH,
        accepts=_spatial(1),
    ),
    _product(
        "conv2d depthwise",
        lambda x, w: sn.conv2d(x, w, padding=2, dilation=2, groups=w.shape[0]),
        lambda s: (s, (s[1], 1, 3, 3)),
        rank=4,
        symbolic=BATCH,
        accepts=_spatial(1),
    ),
    _product("conv", sn.conv, lambda s: (s, (3, s[1], 1)), rank=3, symbolic=BATCH, accepts=_spatial(1)),
    _product(
        "conv3d",
        lambda x, w: sn.conv3d(sn.unsqueeze(x, 0), w, padding=1),
        lambda s: (s, (2, s[0], 2, 3, 2)),
        rank=4,
        symbolic=frozenset(),
        accepts=_spatial(1),
    ),
    _product(
        "conv_transpose",
        lambda x, w: sn.conv_transpose(x, w, stride=2, padding=1, output_padding=1),
        lambda s: (s, (s[1], 2, 3)),
        rank=3,
        symbolic=BATCH,
        accepts=_spatial(2),
    ),
    *(
        Operation(name, apply, of_same_shape(domain), dtypes, rank=4, symbolic=BATCH, accepts=_spatial(2), **rest)
        for name, apply, domain, dtypes, rest in (
            ("max_pool", lambda x: sn.max_pool(x, 2), Domain.MODERATE, NUMBERS, {}),
            (
                "max_pool padded",
                lambda x: sn.max_pool(x, 3, stride=2, padding=1, ceil_mode=True),
                Domain.MODERATE,
                FEW,
                {},
            ),
            ("avg_pool", lambda x: sn.avg_pool(x, 2), PLAIN, FLOATS, {"ulps": 1.0, "reduces": True}),
            (
                "avg_pool padded",
                lambda x: sn.avg_pool(x, 3, stride=2, padding=1, count_include_pad=False),
                PLAIN,
                FEW,
                {"ulps": 1.0, "reduces": True},
            ),
            ("global_avg_pool", sn.global_avg_pool, PLAIN, FLOATS, {"ulps": 1.0, "reduces": True}),
            ("global_max_pool", sn.global_max_pool, Domain.MODERATE, NUMBERS, {}),
            (
                "adaptive_avg_pool",
                lambda x: sn.adaptive_avg_pool(x, (2, 3)),
                PLAIN,
                FLOATS,
                {"ulps": 1.0, "reduces": True},
            ),
            ("adaptive_max_pool", lambda x: sn.adaptive_max_pool(x, (2, 3)), Domain.MODERATE, FEW, {}),
            ("interpolate nearest", lambda x: sn.interpolate(x, scale=(1.5, 0.7)), Domain.MODERATE, FEW, {}),
            (
                "interpolate linear",
                lambda x: sn.interpolate(x, (4, 7), mode="linear"),
                PLAIN,
                FLOATS,
                {"ulps": 4.0, "absolute": 32.0},
            ),
            (
                "pixel_shuffle",
                lambda x: sn.pixel_shuffle(sn.concatenate([x, x + 1, x + 2, x + 3], 1), 2),
                Domain.MODERATE,
                FEW,
                {},
            ),
            (
                "pixel_unshuffle",
                lambda x: sn.pixel_unshuffle(sn.concatenate([sn.concatenate([x, x + 1], 2)] * 2, 3), 2),
                Domain.MODERATE,
                FEW,
                {},
            ),
        )
    ),
)

NORMS: dict[str, Any] = {"ulps": 64.0, "absolute": 64.0}

NORMALISATIONS = (
    Operation(
        "layer_norm",
        sn.layer_norm,
        lambda s: _plain(s, (s[-1],), (s[-1],)),
        FLOATS,
        rank=2,
        accepts=lambda s: s[-1] > 1,
        **NORMS,
    ),
    Operation(
        "rms_norm", sn.rms_norm, lambda s: _plain(s, (s[-1],)), FLOATS, rank=2, accepts=lambda s: s[-1] > 1, **NORMS
    ),
    Operation(
        "instance_norm",
        sn.instance_norm,
        lambda s: _plain(s, (s[1],), (s[1],)),
        FLOATS,
        rank=3,
        accepts=lambda s: s[-1] > 1,
        **NORMS,
    ),
    Operation(
        "group_norm",
        lambda x: sn.group_norm(sn.concatenate([x, x * 0.5], 1), 2),
        lambda s: _plain(s),
        FLOATS,
        rank=3,
        accepts=lambda s: s[-1] > 1,
        symbolic=BATCH,
        **NORMS,
    ),
    Operation(
        "batch_norm",
        sn.batch_norm,
        lambda s: [
            Argument(s, PLAIN),
            Argument((s[1],), PLAIN),
            Argument((s[1],), Domain.POSITIVE),
            Argument((s[1],), PLAIN),
            Argument((s[1],), PLAIN),
        ],
        FLOATS,
        rank=3,
        **NORMS,
    ),
)

ATTENTION = (
    Operation(
        "scaled_dot_product_attention",
        sn.scaled_dot_product_attention,
        lambda s: [Argument(s, Domain.UNIT)] * 3,
        FLOATS,
        rank=3,
        accepts=lambda s: 0 not in s[1:],
        **NORMS,
    ),
    Operation(
        "scaled_dot_product_attention causal",
        lambda q, k, v: sn.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda s: [Argument(s, Domain.UNIT)] * 3,
        FLOATS,
        rank=3,
        accepts=lambda s: 0 not in s[1:],
        **NORMS,
    ),
    Operation(
        "scaled_dot_product_attention masked",
        lambda q, k, v, m: sn.scaled_dot_product_attention(q, k, v, m),
        lambda s: [*[Argument(s, Domain.UNIT)] * 3, Argument((s[1], s[1]), dtype=bool_)],
        FLOATS,
        rank=3,
        accepts=lambda s: 0 not in s[1:],
        **NORMS,
    ),
    Operation(
        "scaled_dot_product_attention grouped",
        sn.scaled_dot_product_attention,
        lambda s: [Argument((4, s[1], s[2]), Domain.UNIT), *[Argument((2, s[1], s[2]), Domain.UNIT)] * 2],
        FLOATS,
        rank=3,
        symbolic=frozenset({1}),
        accepts=lambda s: 0 not in s[1:],
        **NORMS,
    ),
    Operation(
        "attention_weights",
        lambda q, k, m: sn.attention_weights(q, k, m, is_causal=True),
        lambda s: [*[Argument(s, Domain.UNIT)] * 2, Argument((s[1], s[1]), dtype=bool_)],
        FLOATS,
        rank=3,
        accepts=lambda s: 0 not in s[1:],
        **NORMS,
    ),
    Operation("causal_mask", lambda x: sn.causal_mask(x.shape[0], x.shape[1], 1), of_same_shape(PLAIN), (f32,), rank=2),
    Operation(
        "rope_table",
        lambda p: sn.rope_table(p, 6),
        lambda s: [Argument(s, Below(100), i64)],
        (i64,),
        rank=1,
        ulps=8.0,
        absolute=200.0,
    ),
    Operation(
        "rope",
        sn.rope,
        lambda s: [Argument((*s, 6), PLAIN), Argument((s[-1], 2), Domain.UNIT), Argument((s[-1], 2), Domain.UNIT)],
        FLOATS,
        rank=2,
        ulps=2.0,
        absolute=8.0,
    ),
    Operation(
        "rope interleaved",
        lambda x, c, s: sn.rope(x, c, s, interleaved=True),
        lambda s: [Argument((*s, 4), PLAIN), Argument((s[-1], 2), Domain.UNIT), Argument((s[-1], 2), Domain.UNIT)],
        FLOATS,
        rank=2,
        ulps=2.0,
        absolute=8.0,
    ),
)


def _random(name: str, apply: Any, ulps: float = 0.0, absolute: float = 0.0, **rest: Any) -> Operation:
    """A function of a key and of the case's shape."""
    return Operation(
        name,
        apply,
        lambda s: [Argument((2,), Domain.SPECIAL, u32), Argument(s, PLAIN)],
        (f32,),
        rank=2,
        ulps=ulps,
        absolute=absolute,
        **rest,
    )


RANDOM = (
    _random("random.bits", lambda key, x: sn.random.bits(key, x.shape)),
    _random("random.uniform", lambda key, x: sn.random.uniform(key, x.shape, low=-2.0, high=3.0), 1.0, 4.0),
    _random("random.normal", lambda key, x: sn.random.normal(key, x.shape), 8.0, 8.0),
    _random("random.bernoulli", lambda key, x: sn.random.bernoulli(key, 0.25, x.shape)),
    _random("random.randint", lambda key, x: sn.random.randint(key, x.shape, -3, 11)),
    _random("random.categorical", lambda key, x: sn.random.categorical(key, x), accepts=lambda s: s[-1] != 0),
    _random("random.permutation", lambda key, x: sn.random.permutation(key, 7)),
    _random("random.split", lambda key, x: sn.random.split(key, 3)),
    _random("random.fold_in", lambda key, x: sn.random.fold_in(key, 12345678901)),
    _random("random.key", lambda key, x: sn.random.bits(sn.random.key(1 << 40), (3,)) + sn.random.bits(key, (3,))),
)

NETWORKS: tuple[Operation, ...] = (*CONTRACTIONS, *CONVOLUTIONS, *NORMALISATIONS, *ATTENTION, *RANDOM)
