"""A writer of small GGUF files for tests, which can also write files that break the format's rules."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

TYPE_IDS = {
    "u8": 0,
    "i8": 1,
    "u16": 2,
    "i16": 3,
    "u32": 4,
    "i32": 5,
    "f32": 6,
    "bool": 7,
    "u64": 10,
    "i64": 11,
    "f64": 12,
}
FORMS = dict(zip(TYPE_IDS, "BbHhIifBQqd", strict=True))


def text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def scalar_key(key: str | bytes, kind: str, value: float) -> bytes:
    return text(key) + struct.pack("<I", TYPE_IDS[kind]) + struct.pack("<" + FORMS[kind], value)


def text_key(key: str | bytes, value: str | bytes) -> bytes:
    return text(key) + struct.pack("<I", 8) + text(value)


def array_key(key: str, kind: str, values: Sequence[float]) -> bytes:
    body = struct.pack(f"<{len(values)}{FORMS[kind]}", *values)
    return text(key) + struct.pack("<IIQ", 9, TYPE_IDS[kind], len(values)) + body


def texts_key(key: str, values: Sequence[str | bytes]) -> bytes:
    return text(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(text(value) for value in values)


@dataclass
class TensorEntry:
    name: str | bytes
    shape: tuple[int, ...]  # NumPy order
    type_id: int
    data: bytes
    offset: int | None = None  # None: behind the tensor before it


@dataclass
class GGUFBytes:
    """The parts of a file; ``build`` joins them. ``counts`` overrides the numbers of tensors and keys."""

    keys: list[bytes] = field(default_factory=list)
    tensors: list[TensorEntry] = field(default_factory=list)
    magic: bytes = b"GGUF"
    version: int = 3
    alignment: int = 32
    counts: tuple[int, int] | None = None

    def build(self) -> bytes:
        counts = self.counts or (len(self.tensors), len(self.keys))
        header = self.magic + struct.pack("<IQQ", self.version, *counts) + b"".join(self.keys)
        data = b""
        for tensor in self.tensors:
            offset = len(data) if tensor.offset is None else tensor.offset
            header += text(tensor.name) + struct.pack("<I", len(tensor.shape))
            header += struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape[::-1])
            header += struct.pack("<IQ", tensor.type_id, offset)
            data += tensor.data + b"\0" * (-len(tensor.data) % self.alignment)
        return header + b"\0" * (-len(header) % self.alignment) + data
