"""Tiny phases as LLVM IR text, programs made of them, and Python in a process of its own."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from snell.codegen.host import host_target
from snell.codegen.llvm import compile_object
from snell.runtime.program import CodeObject

ROOT = Path(__file__).resolve().parents[2]

_HEAD = """define void @{name}(ptr %buffers, ptr %sizes, ptr %scratch, i64 %begin, i64 %end) {{
entry:
  %p0 = load ptr, ptr %buffers
  %q1 = getelementptr ptr, ptr %buffers, i64 1
  %q2 = getelementptr ptr, ptr %buffers, i64 2
"""
_LOOP = """  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %out
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %out
out:
  ret void
}}
"""
# c[i] = a[i] + b[i] in f32.
ADD = _HEAD.format(name="add") + "  %p1 = load ptr, ptr %q1\n  %p2 = load ptr, ptr %q2\n" + _LOOP.format(body="""
  %a = getelementptr float, ptr %p0, i64 %i
  %b = getelementptr float, ptr %p1, i64 %i
  %c = getelementptr float, ptr %p2, i64 %i
  %x = load float, ptr %a
  %y = load float, ptr %b
  %z = fadd float %x, %y
  store float %z, ptr %c""")  # fmt: skip
# visits[i] += 1 and where[i] = scratch, in i64; the scratch's first word counts the worker's tickets.
VISIT = _HEAD.format(name="visit") + "  %p1 = load ptr, ptr %q1\n" + _LOOP.format(body="""
  %a = getelementptr i64, ptr %p0, i64 %i
  %b = getelementptr i64, ptr %p1, i64 %i
  %x = load i64, ptr %a
  %y = add i64 %x, 1
  store i64 %y, ptr %a
  %s = ptrtoint ptr %scratch to i64
  store i64 %s, ptr %b
  %t = load i64, ptr %scratch
  %u = add i64 %t, 1
  store i64 %u, ptr %scratch""")  # fmt: skip
# out[i] = sizes[i] in i64.
SIZES = _HEAD.format(name="sizes") + _LOOP.format(body="""
  %a = getelementptr i64, ptr %p0, i64 %i
  %b = getelementptr i64, ptr %sizes, i64 %i
  %x = load i64, ptr %b
  store i64 %x, ptr %a""")  # fmt: skip
# flag = (value[0] >= 10), as a byte.
_TOO_LARGE_BODY = """  %p1 = load ptr, ptr %q1
  %x = load i64, ptr %p0
  %large = icmp sge i64 %x, 10
  %byte = zext i1 %large to i8
  store i8 %byte, ptr %p1
  ret void
}
"""
TOO_LARGE = _HEAD.format(name="too_large") + _TOO_LARGE_BODY
TEXTS = {"add": ADD, "visit": VISIT, "sizes": SIZES, "too_large": TOO_LARGE}


@cache
def code(name: str) -> CodeObject:
    """The phase as an object file."""
    return CodeObject((name,), compile_object(TEXTS[name], host_target()))


def environment() -> dict[str, str]:
    """This process's environment, with which an interpreter finds snell and the tests."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh interpreter that finds snell and the tests."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=120, check=False)
