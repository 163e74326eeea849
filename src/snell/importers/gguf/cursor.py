"""A bounds-checked position in a file's bytes: every read either fits into the file or is a ``FileFormatError``.

Takes the file's bytes and hands out little-endian scalars and UTF-8 text. Each read is told what it reads, so that the
error of a malformed file names the key or tensor, the offset and the file's size.
"""

import struct

import numpy as np
import numpy.typing as npt

from snell.errors import FileFormatError

__all__ = ["U32", "U64", "Cursor"]

U32 = struct.Struct("<I")
U64 = struct.Struct("<Q")


class Cursor:
    """Reads one file from front to back; ``position`` is the offset of the next byte."""

    def __init__(self, data: npt.NDArray[np.uint8], path: str) -> None:
        self.data = data
        self.path = path
        self.position = 0
        self._view = data.data

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return int(self.data.size)

    @property
    def remaining(self) -> int:
        """Bytes between the position and the end of the file."""
        return self.size - self.position

    def error(self, what: str, problem: str, offset: int | None = None) -> FileFormatError:
        """The error to raise for ``what`` (a key, a tensor) at ``offset`` (default: the position)."""
        at = self.position if offset is None else offset
        return FileFormatError(
            f"{self.path}: {what}: {problem} (at offset {at} of a file of {self.size} bytes); "
            "the file is damaged or incomplete: fetch or convert it again"
        )

    def skip(self, count: int, what: str) -> int:
        """Move over ``count`` bytes and return the offset where they begin."""
        if count > self.remaining:
            raise self.error(what, f"needs {count} bytes, but {self.remaining} are left")
        start = self.position
        self.position += count
        return start

    def scalar(self, form: struct.Struct, what: str) -> int | float | bool:
        """One little-endian scalar."""
        start = self.skip(form.size, what)
        return form.unpack_from(self._view, start)[0]

    def unsigned(self, form: struct.Struct, what: str) -> int:
        """One unsigned integer of the width of ``form`` (``U32`` or ``U64``)."""
        return int(self.scalar(form, what))

    def text(self, what: str) -> str:
        """A string: its length in bytes as u64, then UTF-8."""
        start = self.skip(self.unsigned(U64, f"{what} (length)"), what)
        try:
            return str(self._view[start : self.position], "utf-8")
        except UnicodeDecodeError as error:
            raise self.error(what, f"is not UTF-8 ({error.reason})", start + error.start) from error
