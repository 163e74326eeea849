"""Element types: ranges, identities, NumPy equivalents, names and the promotion table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from snell import dtypes
from snell.dtypes import (
    ALL,
    DType,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    from_name,
    from_numpy,
    i8,
    i16,
    i64,
    promote,
    u4,
    u8,
    u64,
)
from snell.errors import DTypeError

ORDINARY = [dtype for dtype in ALL if not dtype.is_packed]


@pytest.mark.parametrize("dtype", ORDINARY, ids=str)
def test_a_dtype_and_its_numpy_dtype_name_each_other(dtype: DType) -> None:
    assert from_numpy(dtype.numpy) == dtype
    assert from_name(dtype.name) == dtype
    assert dtype.itemsize == dtype.numpy.itemsize


@pytest.mark.parametrize("dtype", ORDINARY, ids=str)
def test_the_range_is_what_numpy_says(dtype: DType) -> None:
    if dtype.is_integer:
        assert dtype.range == (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
        assert dtype.lowest == np.iinfo(dtype.numpy).min
    if dtype.is_float:
        assert np.isfinite(np.asarray(dtype.range, dtype.numpy)).all()
        assert dtype.lowest == -math.inf


def test_promotion_is_commutative_and_idempotent() -> None:
    for a, b in itertools.product(ORDINARY, ORDINARY):
        if {a.kind, b.kind} == {"int", "uint"} and u64 in (a, b):
            continue
        assert promote(a, b) == promote(b, a)
        assert promote(a, a) == a


@pytest.mark.parametrize(("a", "b", "common"), [
    (u8, i8, i16), (f16, bf16, f32), (i64, f16, f16), (bool_, f32, f32), (f32, f64, f64), (i8, i64, i64),
])  # fmt: skip
def test_promotion_follows_the_array_api_and_prefers_the_float(a: DType, b: DType, common: DType) -> None:
    assert promote(a, b) == common


def test_what_has_no_common_type_is_refused() -> None:
    with pytest.raises(DTypeError, match="no integer type holds both u64 and i8"):
        promote(u64, i8)
    with pytest.raises(DTypeError, match="packed u4 must be cast"):
        promote(u4, f32)


def test_unknown_names_and_arrays_list_what_there_is() -> None:
    with pytest.raises(DTypeError, match=r"unknown dtype 'f8'; expected one of .*bf16"):
        from_name("f8")
    with pytest.raises(DTypeError, match="arrays of complex128 are not supported"):
        from_numpy(np.complex128)


def test_packed_fields_unpack_to_bytes() -> None:
    assert dtypes.u2.is_packed
    assert dtypes.u2.numpy == np.uint8
    assert dtypes.u2.range == (0, 3)
