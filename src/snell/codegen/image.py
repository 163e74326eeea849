"""Images: machine code that needs no linker, only a place in memory.

Code addresses its data relative to itself, so an image runs wherever it is put.  What cannot be known before is listed:
the slots that hold addresses (of functions of the process, of places in the image), which `loading` fills in.

    Image ::= header (JSON), code (read and run), data (read and written)

Putting an image in place takes microseconds and no LLVM, which takes 20 ms and 30 MB of every process that loads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from snell.errors import FileFormatError

__all__ = ["PAGE", "Image", "image_from_bytes", "image_to_bytes", "is_image", "rounded"]

PAGE: Final = 4096
_MAGIC: Final = b"snell image 1\n"
_WORD: Final = 8


@dataclass(frozen=True, slots=True)
class Image:
    """Code and data as they lie in memory, data from the page after the code; `data_bytes` counts zeros behind them too.

    Places count from the image's first byte.  `addresses` are slots that hold the address of a place, `imports` those
    that hold the address of a function or variable of the process.
    """

    code: bytes
    data: bytes
    data_bytes: int
    symbols: Mapping[str, int]
    addresses: tuple[tuple[int, int], ...]
    imports: tuple[tuple[int, str], ...]

    @property
    def data_start(self) -> int:
        return rounded(len(self.code), PAGE)

    @property
    def nbytes(self) -> int:
        return self.data_start + self.data_bytes


def is_image(data: bytes) -> bool:
    """Whether these are an image's bytes."""
    return data.startswith(_MAGIC)


def image_to_bytes(image: Image) -> bytes:
    """Equal images give equal bytes."""
    header = json.dumps(
        [len(image.code), len(image.data), image.data_bytes, dict(image.symbols), image.addresses, image.imports],
        separators=(",", ":"),
    ).encode()
    return b"".join((_MAGIC, len(header).to_bytes(_WORD, "little"), header, image.code, image.data))


def image_from_bytes(data: bytes) -> Image:
    """What `image_to_bytes` wrote; FileFormatError for other or cut bytes."""
    start = len(_MAGIC) + _WORD
    length = int.from_bytes(data[len(_MAGIC) : start], "little")
    try:
        code, filled, data_bytes, symbols, addresses, imports = json.loads(data[start : start + length])
    except ValueError as error:
        raise FileFormatError(f"expected an image of machine code: {error}") from error
    middle = start + length + code
    if not is_image(data) or len(data) != middle + filled:
        raise FileFormatError(f"expected an image of {middle + filled} bytes, received {len(data)}")
    return Image(
        data[start + length : middle], data[middle:], data_bytes, symbols,
        tuple((slot, place) for slot, place in addresses), tuple((slot, name) for slot, name in imports),
    )  # fmt: skip


def rounded(size: int, step: int) -> int:
    """The size, or the next multiple of `step`."""
    return -(-size // step) * step
