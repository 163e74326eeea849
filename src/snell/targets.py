"""What code generation and scheduling may know about a processor, as data.

A `Target` is a description, never a handle: two machines with equal descriptions run the same code.  Nothing above
`codegen/` assumes a CPU beyond these numbers.  `codegen.host.host_target()` describes the machine at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from snell.dtypes import DType, bf16, f32, f64, i8, i32, u8

__all__ = [
    "ALIASING", "AVX2", "AVX2_LOOKUPS", "AVX512", "AVX512_LOOKUPS", "AVX512_SCALINGS", "BF16_PAIRS", "BYTE_QUADS",
    "BYTE_QUADS_256", "NEON", "PLACE_STEP", "STAGGER", "GroupedProduct", "Lookup", "Scaling", "Target",
]  # fmt: skip

ALIASING = 4096
"""Bytes: a load waits for an earlier store whose address agrees below this, though it is another one.

A kernel that reads one array and writes another at equal distances from it takes twice as long (measured), and sizes of
arrays often are multiples of it.
"""
PLACE_STEP = 512
"""Bytes from one place in a page to the next, at which large arrays begin in turns; at 0 those of NumPy do."""
STAGGER = 320
"""Bytes by which buffers that lie one after the other are moved apart, so that no two agree below `ALIASING`."""


@dataclass(frozen=True, slots=True)
class GroupedProduct:
    """An instruction that adds `group` products to each of `lanes` accumulators: `a[i] += Σ_g left[i, g]·right[i, g]`.

    Operands lie in registers as `lanes` words of `group` elements.  `instruction` is LLVM's name for it.
    """

    instruction: str
    lanes: int
    group: int
    left: DType
    right: DType
    accumulator: DType


@dataclass(frozen=True, slots=True)
class Scaling:
    """An instruction for `x·2^n`, rounded once, in all lanes of a register: n is a whole number, a float of any size.

    `instruction` is LLVM's name for it; it takes x, n, what lanes that are masked out hold, the mask and the rounding.
    """

    instruction: str
    dtype: DType
    lanes: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """An instruction that gives each lane the element of a register that its index names: `a[i] = table[index[i] mod lanes]`.

    `instruction` is LLVM's name for it; it takes the table and the indices.
    """

    instruction: str
    dtype: DType
    lanes: int


AVX2_LOOKUPS = (Lookup("llvm.x86.avx2.permps", f32, 8),)
AVX512_LOOKUPS = (Lookup("llvm.x86.avx512.permvar.sf.512", f32, 16),)
AVX512_SCALINGS = (
    Scaling("llvm.x86.avx512.mask.scalef.ps.512", f32, 16),
    Scaling("llvm.x86.avx512.mask.scalef.pd.512", f64, 8),
)
BYTE_QUADS = GroupedProduct("llvm.x86.avx512.vpdpbusd.512", 16, 4, u8, i8, i32)
BYTE_QUADS_256 = GroupedProduct("llvm.x86.avx512.vpdpbusd.256", 8, 4, u8, i8, i32)
BF16_PAIRS = GroupedProduct("llvm.x86.avx512bf16.dpbf16ps.512", 16, 2, bf16, bf16, f32)


@dataclass(frozen=True, slots=True)
class Target:
    """A processor: LLVM's name for it, its vector registers, multiply-adds a cycle, caches in bytes.

    `l1_ways`, `l2_ways`: lines of a set of the first and of the second cache.
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bits: int
    vector_registers: int
    fma_ports: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    has_f16c: bool
    l1_ways: int = 8
    l2_ways: int = 8
    has_bf16: bool = False
    products: tuple[GroupedProduct, ...] = ()
    scalings: tuple[Scaling, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register."""
        return max(1, self.vector_bits // dtype.bits)


AVX2 = Target(
    name="avx2",
    triple="x86_64-unknown-linux-gnu",
    cpu="x86-64-v3",
    features="",
    vector_bits=256,
    vector_registers=16,
    fma_ports=2,
    l1_bytes=32 << 10,
    l2_bytes=512 << 10,
    l3_bytes=16 << 20,
    has_f16c=True,
    lookups=AVX2_LOOKUPS,
)
AVX512 = Target(
    name="avx512",
    triple="x86_64-unknown-linux-gnu",
    cpu="x86-64-v4",
    features="-prefer-256-bit",
    vector_bits=512,
    vector_registers=32,
    fma_ports=2,
    l1_bytes=32 << 10,
    l2_bytes=1 << 20,
    l3_bytes=32 << 20,
    has_f16c=True,
    l2_ways=16,
    scalings=AVX512_SCALINGS,
    lookups=AVX512_LOOKUPS,
)
NEON = Target(
    name="neon",
    triple="aarch64-unknown-linux-gnu",
    cpu="generic",
    features="+neon,+fullfp16",
    vector_bits=128,
    vector_registers=32,
    fma_ports=2,
    l1_bytes=64 << 10,
    l2_bytes=512 << 10,
    l3_bytes=8 << 20,
    has_f16c=True,
)
