"""The target description of the machine this process runs on, from LLVM's feature list and the kernel's cache sizes."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding

from snell.targets import BF16_PAIRS, Target

__all__ = ["host_target"]

# llvmlite has no type stubs: the foreign boundary.
llvm: Any = llvmlite.binding

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@cache
def host_target() -> Target:
    """Describe this machine; the features are those the operating system lets programs use."""
    features = llvm.get_host_cpu_features()
    has_avx512 = bool(features.get("avx512f")) and bool(features.get("avx512vl"))
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    has_fma = is_arm or bool(features.get("fma"))
    l1, l2, l3 = _cache_bytes()
    return Target(
        name="neon" if is_arm else "avx512" if has_avx512 else "avx2" if features.get("avx2") else "sse",
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=features.flatten(),
        vector_bits=512 if has_avx512 else 256 if features.get("avx2") else 128,
        vector_registers=32 if has_avx512 or is_arm else 16,
        fma_ports=2 if has_fma else 0,
        l1_bytes=l1,
        l2_bytes=l2,
        l3_bytes=l3,
        has_f16c=is_arm or bool(features.get("f16c")),
        has_bf16=bool(features.get("avx512bf16")),
        products=(BF16_PAIRS,) if has_avx512 and features.get("avx512bf16") else (),
    )


def _cache_bytes() -> tuple[int, int, int]:
    sizes = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
    for folder in sorted(CACHES.glob("index*")) if CACHES.is_dir() else ():
        kind = (folder / "type").read_text().strip()
        text = (folder / "size").read_text().strip()
        if kind == "Instruction" or not text.endswith("K"):
            continue
        sizes[int((folder / "level").read_text())] = int(text[:-1]) << 10
    return sizes[1], sizes[2], sizes[3]
