"""Machine code into this process: an image is put in place here, an object file is linked by LLVM.

Memory is writable while an image is put there and executable afterwards, never both.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from snell.codegen.image import image_from_bytes, is_image
from snell.deferred import deferred
from snell.errors import CompileError

if TYPE_CHECKING:
    from snell.codegen import llvm
else:
    llvm = deferred("snell.codegen.llvm")

__all__ = ["Library", "load"]

_EXECUTABLE = mmap.PROT_READ | mmap.PROT_EXEC if hasattr(mmap, "PROT_EXEC") else 0


class Library:
    """Loaded code: addresses of its functions, valid for as long as this object lives."""

    __slots__ = ("_keep", "addresses")

    addresses: Mapping[str, int]

    def __init__(self, keep: Any, addresses: Mapping[str, int]) -> None:
        self._keep = keep
        self.addresses = addresses

    def __getitem__(self, name: str) -> int:
        """Address of a function; CompileError when the library does not have it."""
        if name not in self.addresses:
            raise CompileError(f"expected one of {sorted(self.addresses)}, received {name!r}")
        return self.addresses[name]


def load(code: bytes, names: Iterable[str]) -> Library:
    """The functions `names` of an image or an object file, ready to be called."""
    wanted = tuple(names)
    if is_image(code):
        memory, symbols = _put_in_place(code)
    else:
        memory, symbols = llvm.linked(code, wanted)
    missing = [name for name in wanted if name not in symbols]
    if missing:
        raise CompileError(f"expected code that defines {', '.join(wanted)}; it lacks {', '.join(missing)}")
    return Library(memory, {name: symbols[name] for name in wanted})


def _put_in_place(code: bytes) -> tuple[mmap.mmap, dict[str, int]]:
    image = image_from_bytes(code)
    memory = mmap.mmap(-1, image.nbytes, access=mmap.ACCESS_COPY)  # a forked child has its own data
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[: len(image.code)] = image.code
    memory[image.data_start : image.data_start + len(image.data)] = image.data
    for slot, place in image.addresses:
        memory[slot : slot + 8] = (start + place).to_bytes(8, "little")
    for slot, name in image.imports:
        memory[slot : slot + 8] = _process_address(name).to_bytes(8, "little")
    if _system().mprotect(ctypes.c_void_p(start), ctypes.c_size_t(image.data_start), _EXECUTABLE):
        raise CompileError(
            "the system does not let memory become executable; generated code cannot run under its present policy"
        )
    return memory, {name: start + place for name, place in image.symbols.items()}


@cache
def _system() -> Any:
    """The functions of this process: the C library's and the interpreter's."""
    return ctypes.CDLL(None)


def _process_address(name: str) -> int:
    try:
        function: Any = getattr(_system(), name)
    except AttributeError as error:
        raise CompileError(f"generated code calls {name}, which this process does not have") from error
    return ctypes.cast(function, ctypes.c_void_p).value or 0
