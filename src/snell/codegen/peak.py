"""A loop of nothing but fused multiply-adds: the arithmetic limit of a core, measured rather than looked up.

void @fma_loop(i64 %rounds, ptr %out)        rounds · CHAINS · lanes · 2 floating-point operations
"""

from __future__ import annotations

from snell.dtypes import f32
from snell.targets import Target

__all__ = ["CHAINS", "FUNCTION", "fma_loop_ir", "operations"]

CHAINS = 12
FUNCTION = "fma_loop"


def operations(target: Target, rounds: int) -> int:
    """f32 operations of a call."""
    return 2 * rounds * CHAINS * target.lanes(f32)


def fma_loop_ir(target: Target) -> str:
    """Independent chains, enough of them to hide the latency of an addition, and few enough to stay in registers."""
    vector = f"<{target.lanes(f32)} x float>"
    intrinsic = f"@llvm.fma.v{target.lanes(f32)}f32"
    phis = "\n".join(f"  %x{k} = phi {vector} [ splat (float {k}.0), %entry ], [ %y{k}, %loop ]" for k in range(CHAINS))
    body = "\n".join(
        f"  %y{k} = call {vector} {intrinsic}({vector} %x{k}, {vector} splat (float 0.5), {vector} splat (float 1.0))"
        for k in range(CHAINS)
    )
    stores = "\n".join(f"  store volatile {vector} %y{k}, ptr %out, align 4" for k in range(CHAINS))
    return f"""declare {vector} {intrinsic}({vector}, {vector}, {vector})
define void @{FUNCTION}(i64 %rounds, ptr %out) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %rounds
  br i1 %more, label %loop, label %done
done:
{stores}
  ret void
}}
"""
