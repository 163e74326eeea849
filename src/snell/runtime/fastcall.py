"""The fast way into an executable: a built-in Python function for arguments of known shapes and dtypes.

`fast_call` describes a call in the words of `codegen.fastcall` and gives the function that makes it; its memory is its
own, and it takes one call at a time.  It is None where this Python or NumPy is laid out otherwise than the generated
code expects, or where the call is not of the kind that it makes; the ordinary way is always right.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from snell.codegen.fastcall import FASTCALL, MOST_ARRAYS, PYTHON_ENTRIES, PYTHON_TABLE, fastcall_ir
from snell.codegen.host import host_target
from snell.codegen.loading import Library, load
from snell.deferred import deferred
from snell.runtime.arena import ALIGNMENT
from snell.runtime.buffers import LARGE_BYTES, Array, address
from snell.runtime.cache import Compiler
from snell.runtime.executable import Executable, Layout
from snell.targets import ALIASING, PLACE_STEP

if TYPE_CHECKING:
    from snell.codegen import llvm
else:
    llvm = deferred("snell.codegen.llvm")

__all__ = ["ArraySpec", "fast_call"]

ArraySpec = tuple[tuple[int, ...], np.dtype[Any]]

_MOST_KEPT_BYTES: Final = 1 << 18
_METH_FASTCALL: Final = 0x0080
# Indices of NumPy's C-API table, the same since 1.7.
_ARRAY_TYPE, _NEW_FROM_DESCR, _SET_BASE_OBJECT = 2, 94, 282
# NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED.
_USABLE: Final = 0x0001 | 0x0100
# What PyArrayObject_fields has at each offset, for a C-contiguous array of shape (2, 3).
_RANK, _SHAPE, _DTYPE, _FLAGS = 24, 32, 56, 64


class _MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The loaded code, which lives as long as the process, and its description for Python."""

    library: Library
    method: _MethodDef


def fast_call(
    executable: Executable,
    layout: Layout,
    arguments: Sequence[ArraySpec],
    order: Sequence[int],
    box: type,
    compiler: Compiler | None = None,
) -> Callable[..., Any] | None:
    """A function of arrays of these shapes and dtypes: `box` around the result, or a tuple of them.

    `order` has for each input the number of its argument; a box, whose only slot holds an array, stands for the array.
    The function answers NotImplemented where it does not take a call.
    """
    if not _is_understood(box) or not _is_plain(executable, layout, len(arguments)):
        return None
    loaded = _loaded(compiler or llvm.compile_object)
    frame = executable.take_frame(layout)
    # What no input reads has a place behind the others.
    places = [len(executable.program.arguments)] * len(arguments)
    for place, number in zip(executable.input_places, order, strict=True):
        places[number] = place
    inputs = [_spec(shape, dtype, place) for (shape, dtype), place in zip(arguments, places, strict=True)]
    outputs = [
        (*_spec(shape, dtype, place), *_room(size))
        for (shape, dtype, size), place in zip(layout.outputs, executable.output_places, strict=True)
    ]
    shapes = [np.array(item[2], np.int64) for item in (*inputs, *outputs)]
    input_words = np.array([_words(item, shape) for item, shape in zip(inputs, shapes, strict=False)], np.uint64)
    output_words = np.array(
        [_words(item, shape) for item, shape in zip(outputs, shapes[len(inputs) :], strict=True)], np.uint64
    )
    call = np.array(
        [
            0, executable.may_take_long(layout), executable.pool.threads, executable.pool.threads_address,
            ctypes.cast(executable.enter, ctypes.c_void_p).value, frame.entry, ctypes.addressof(frame.pointers), id(box),
            len(inputs), address(input_words), len(outputs), address(output_words),
        ],
        np.uint64,
    )  # fmt: skip
    kept = (call, input_words, output_words, shapes, frame, layout, executable, box, inputs, outputs, loaded)
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return new(("PyCFunction_NewEx", ctypes.pythonapi))(ctypes.addressof(loaded.method), kept, None)


def _is_plain(executable: Executable, layout: Layout, arguments: int) -> bool:
    # A program of many sizes would keep memory for each.
    is_small = not executable.program.dims or layout.arena_bytes + layout.scratch_bytes <= _MOST_KEPT_BYTES
    return is_small and not executable.donates and max(arguments, len(layout.outputs)) <= MOST_ARRAYS


def _spec(shape: tuple[int, ...], dtype: np.dtype[Any], place: int) -> tuple[Any, ...]:
    return dtype, len(shape), shape, place


def _room(size: int) -> tuple[int, int]:
    """The bytes to allocate, and for large arrays where in a page the first one begins."""
    return (size + ALIGNMENT, 0) if size < LARGE_BYTES else (size + ALIASING, PLACE_STEP)


def _words(item: tuple[Any, ...], shape: Array) -> list[int]:
    """A %Input or %Output: objects by their addresses, which the function's tuple keeps alive."""
    dtype, rank, _, *rest = item
    return [id(dtype), rank, address(shape), *rest]


@functools.cache
def _is_understood(box: type) -> bool:
    """Whether objects lie in memory as the generated code expects, seen at a sample of each kind."""
    # Without a GIL, reading another thread's objects takes more than this code does.
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    if sys.implementation.name != "cpython" or not has_gil or object.__basicsize__ != 16 or sys.maxsize < 1 << 60:
        return False
    sample = np.zeros((2, 3), np.float32)
    boxed = box(sample)
    place, shape = id(sample), _word(id(sample) + _SHAPE)
    return (
        box.__basicsize__ >= 24
        and _word(id(boxed) + 16) == place
        and _word(place + 8) == id(np.ndarray)
        and _word(place + 16) == sample.__array_interface__["data"][0]
        and _integer(place + _RANK) == 2
        and (_word(shape), _word(shape + 8)) == (2, 3)
        and _word(place + _DTYPE) == id(sample.dtype)
        and _integer(place + _FLAGS) == sample.flags.num
        and _array_api() is not None
    )


def _word(place: int) -> int:
    return ctypes.c_void_p.from_address(place).value or 0


def _integer(place: int) -> int:
    return ctypes.c_int.from_address(place).value


def _array_api() -> int | None:
    """Address of NumPy's C-API table, None where it is not where NumPy 2 has it or not what it was."""
    umath = sys.modules.get("numpy._core._multiarray_umath")
    capsule = getattr(umath, "_ARRAY_API", None)
    if capsule is None:
        return None
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    table = pointer(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, None)
    return table if _word(table + 8 * _ARRAY_TYPE) == id(np.ndarray) else None


_LOADED: list[_Loaded] = []


def _loaded(compiler: Compiler) -> _Loaded:
    """The code, loaded once: whichever thread's copy comes first stays, another one's does no harm."""
    if not _LOADED:
        target = host_target()
        text = fastcall_ir(tuple.__basicsize__, _USABLE)
        library = load(compiler(text, target), (FASTCALL, PYTHON_TABLE))
        table = (ctypes.c_void_p * len(PYTHON_ENTRIES)).from_address(library[PYTHON_TABLE])
        table[:] = [_entry(name) for name in PYTHON_ENTRIES]
        method = _MethodDef(b"call", library[FASTCALL], _METH_FASTCALL, b"A compiled function, for known shapes.")
        _LOADED.append(_Loaded(library, method))
    return _LOADED[0]


def _entry(name: str) -> int:
    """The address of a function or an object that the code uses."""
    api = _array_api() or 0
    objects = {
        "NotImplemented": id(NotImplemented), "PyArray_Type": id(np.ndarray), "uint8": id(np.dtype(np.uint8)),
        "PyArray_NewFromDescr": _word(api + 8 * _NEW_FROM_DESCR),
        "PyArray_SetBaseObject": _word(api + 8 * _SET_BASE_OBJECT),
    }  # fmt: skip
    found = objects.get(name) or ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    return found or 0
