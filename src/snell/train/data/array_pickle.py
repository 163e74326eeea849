"""Pickles of arrays, dicts, lists, numbers and bytes, read without running what a pickle may say to run.

A pickle is a program that calls what it names.  Here the only names are NumPy's constructors of arrays and dtypes, and
they stand for classes of ours, which keep what they are given; the arrays are made afterwards, from plain bytes.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from snell.errors import FileFormatError

__all__ = ["load_array_pickle"]

_KINDS = "buif"
_ARRAY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
_BUFFER_MODULES = ("numpy.core.numeric", "numpy._core.numeric")


class _DType:
    """What a pickle says of a dtype: its code, and its byte order by `__setstate__`."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = _text(code)
        self.order = "="

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1]) if isinstance(state, tuple) and len(cast("Any", state)) > 1 else "="

    def made(self) -> np.dtype[Any]:
        code = self.code.lstrip("<>|=")
        if len(code) < 2 or code[0] not in _KINDS or not code[1:].isdigit():
            raise pickle.UnpicklingError(f"arrays of dtype {self.code!r} are not read; only numbers are")
        found = np.dtype(code)
        return found.newbyteorder(self.order) if self.order in "<>" else found


class _Array:
    """What a pickle says of an array: by `__setstate__` (version, shape, dtype, is_fortran, bytes)."""

    def __init__(self) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def made(self) -> np.ndarray[Any, Any]:
        if not (isinstance(self.state, tuple) and len(cast("Any", self.state)) == 5):
            raise pickle.UnpicklingError("an array has no shape, dtype and bytes")
        _, shape, dtype, fortran, content = cast("tuple[Any, ...]", self.state)
        if isinstance(content, str):  # Python 2 wrote bytes as text
            content = content.encode("latin-1")
        return _array(content, dtype, shape, "F" if fortran else "C")


class _Marker:
    """Stands for the class of all arrays, which pickles only mention."""


def load_array_pickle(data: bytes) -> Any:
    """The value of a pickle (also one that Python 2 wrote, whose texts become bytes).

    Raises FileFormatError for a damaged pickle and for one that holds, or calls, anything else than arrays of numbers, dicts,
    lists, tuples, numbers, texts and bytes.  Nothing that the pickle names is imported or run.
    """
    try:
        return _resolved(_Reader(io.BytesIO(data), encoding="bytes").load())
    except FileFormatError:
        raise
    except Exception as error:  # a damaged pickle makes its reader fail in any way
        raise FileFormatError(f"expected a pickle of arrays, dicts, lists and bytes: {error}") from error


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        found = _constructor(module_name, global_name)
        if found is None:
            raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}, which is not read")
        return found

    def persistent_load(self, pid: Any, /) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside of it")


def _constructor(module: str, name: str) -> Callable[..., Any] | _Marker | None:
    # Functions and fresh objects, never classes: a pickle may set attributes of what it gets.
    if module == "numpy" and name == "dtype":
        return lambda *code: _DType(*code)
    if module == "numpy" and name == "ndarray":
        return _Marker()
    if module in _ARRAY_MODULES and name == "_reconstruct":
        return lambda *_: _Array()
    if module in _ARRAY_MODULES and name == "scalar":
        return lambda dtype, content: _array(content, dtype, (), "C")
    if module in _BUFFER_MODULES and name == "_frombuffer":
        return lambda content, dtype, shape, order: _array(content, dtype, shape, order)
    if module == "_codecs" and name == "encode":  # how Python 3 writes bytes for Python 2
        return lambda text, encoding: text.encode("latin-1")
    return None


def _array(content: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    if not isinstance(dtype, _DType) or not isinstance(content, bytes | bytearray | memoryview | pickle.PickleBuffer):
        raise pickle.UnpicklingError("an array is not made of a dtype and bytes")
    made, content = dtype.made(), bytes(content)
    if math.prod(shape) * made.itemsize != len(content) or any(size < 0 for size in shape):
        raise pickle.UnpicklingError(f"an array of {made}{tuple(shape)} has {len(content)} bytes")
    found = np.frombuffer(content, made).reshape(shape, order="F" if _text(order) == "F" else "C")
    return found.astype(made.newbyteorder("="))


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _resolved(value: Any) -> Any:
    """The value with arrays in the places of what stands for them."""
    match value:
        case _Array():
            return value.made()
        case _DType() | _Marker():
            raise pickle.UnpicklingError("it holds a dtype or a class by itself")
        case dict():
            return {_resolved(k): _resolved(v) for k, v in cast("dict[Any, Any]", value).items()}
        case list():
            return [_resolved(item) for item in cast("list[Any]", value)]
        case tuple():
            return tuple(_resolved(item) for item in cast("tuple[Any, ...]", value))
        case _:
            return _plain(value)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | bytes | np.ndarray):
        return value
    raise pickle.UnpicklingError(f"it holds a {type(value).__name__}")
