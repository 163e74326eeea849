"""The target description of the machine this process runs on, from LLVM's feature list and the kernel's cache sizes."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite

from snell.deferred import deferred
from snell.targets import (
    AVX2_LOOKUPS,
    AVX512_LOOKUPS,
    AVX512_SCALINGS,
    BF16_PAIRS,
    BYTE_QUADS,
    BYTE_QUADS_256,
    GroupedProduct,
    Target,
)

if TYPE_CHECKING:
    import platform

    # llvmlite has no type stubs: the foreign boundary.
    llvm: Any
else:
    # A process whose programs are in the cache asks for the signature alone.
    llvm = deferred("llvmlite.binding")
    platform = deferred("platform")

__all__ = ["host_signature", "host_target"]

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
PROCESSORS = Path("/proc/cpuinfo")
_DESCRIBING = frozenset(("vendor_id", "cpu family", "model", "model name", "stepping", "flags"))


@cache
def host_signature() -> str:
    """A text that differs where `host_target` may, found without LLVM (20 ms) where the kernel tells about processors."""
    described = _processor()
    if "flags" not in described:
        return repr(host_target())
    text = repr((llvmlite.__version__, _machine(), sorted(described.items()), _caches()))
    return hashlib.sha256(text.encode()).hexdigest()


def _machine() -> str:
    """The architecture's name: from the system itself where that is possible, `platform` takes 3 ms to import."""
    return (os.uname().machine if hasattr(os, "uname") else platform.machine()).lower()


def _processor() -> dict[str, str]:
    """What the kernel says of the first processor's kind; nothing where there is no such file."""
    found: dict[str, str] = {}
    if PROCESSORS.exists():
        with PROCESSORS.open() as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if not line.strip():
                    break
                if name.strip() in _DESCRIBING:
                    found[name.strip()] = value.strip()
    return found


@cache
def host_target() -> Target:
    """Describe this machine; the features are those the operating system lets programs use."""
    features = llvm.get_host_cpu_features()
    has_avx512 = bool(features.get("avx512f")) and bool(features.get("avx512vl"))
    is_arm = _machine() in ("aarch64", "arm64")
    has_fma = is_arm or bool(features.get("fma"))
    caches = _caches()
    return Target(
        name="neon" if is_arm else "avx512" if has_avx512 else "avx2" if features.get("avx2") else "sse",
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=features.flatten(),
        vector_bits=512 if has_avx512 else 256 if features.get("avx2") else 128,
        vector_registers=32 if has_avx512 or is_arm else 16,
        fma_ports=2 if has_fma else 0,
        l1_bytes=caches[1][0],
        l2_bytes=caches[2][0],
        l3_bytes=caches[3][0],
        has_f16c=is_arm or bool(features.get("f16c")),
        l1_ways=caches[1][1],
        l2_ways=caches[2][1],
        has_bf16=bool(features.get("avx512bf16")),
        scalings=AVX512_SCALINGS if has_avx512 else (),
        lookups=AVX512_LOOKUPS if has_avx512 else AVX2_LOOKUPS if features.get("avx2") else (),
        products=_products(features, has_avx512),
    )


def _products(features: Any, has_avx512: bool) -> tuple[GroupedProduct, ...]:
    """The instructions for grouped products, in registers as wide as all others."""
    if not has_avx512:
        return (BYTE_QUADS_256,) if features.get("avxvnni") else ()
    rows = ((BF16_PAIRS, "avx512bf16"), (BYTE_QUADS, "avx512vnni"))
    return tuple(row for row, feature in rows if features.get(feature))


def _caches() -> dict[int, tuple[int, int]]:
    """Bytes and ways of the data caches by level; common ones where the kernel tells nothing."""
    found = {1: (32 << 10, 8), 2: (512 << 10, 8), 3: (8 << 20, 16)}
    for folder in sorted(CACHES.glob("index*")) if CACHES.is_dir() else ():
        kind, size = _text(folder / "type"), _text(folder / "size")
        if kind != "Instruction" and size.endswith("K"):
            level = int(_text(folder / "level"))
            ways = int(_text(folder / "ways_of_associativity") or 0)
            found[level] = (int(size[:-1]) << 10, ways or found.get(level, (0, 8))[1])
    return found


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
