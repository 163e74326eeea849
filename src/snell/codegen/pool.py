"""The thread pool as LLVM IR: one dispatch at a time, chunks claimed by compare-and-swap, the caller works too.

A dispatch is published in one 64-bit word, `generation:24 | chunks:20 | next:20`; whoever wins the exchange runs that
chunk, so a worker whose core is taken away delays nobody (measured: a static split drops to half its speed).  A worker
looks at the dispatch's other fields only after it has won a chunk, and the caller waits for every won chunk: the fields
cannot change under it.  Idle workers spin for about 50 µs, then sleep.  They are pinned nowhere: the caller may run on
any processor, and a worker bound to the same one would wait for it (measured: for some 20 ms).

    void pool_configure(i64 workers)                   stops workers; so many start at the next dispatch
    void pool_run(ptr phase, ptr buffers, ptr sizes, ptr scratch, i64 stride, i64 tickets, i64 chunk)
         phase(buffers, sizes, scratch + worker*stride, begin, end); worker 0 is the caller
    void pool_stop()                                   joins the workers; the next dispatch starts them again
    void pool_reset()                                  in a forked child: forget the parent's workers
    i64  pool_started()                                workers that run now

`chunk` is the least number of tickets worth a claim; the pool takes more where that leaves eight chunks for each
thread. A caller that finds the pool busy runs all of its tickets itself, as worker 0 of its own scratch.  The module's
code must stay loaded while workers live.
"""

from __future__ import annotations

from typing import Final

from snell.targets import Target

__all__ = ["MAX_WORKERS", "POOL_FUNCTIONS", "pool_ir"]

POOL_FUNCTIONS: Final = ("pool_configure", "pool_run", "pool_stop", "pool_reset", "pool_started")
MAX_WORKERS: Final = 255
_FUTEX_NUMBERS: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}


def pool_ir(target: Target) -> str:
    """The pool's module for a target: futexes on Linux, pthread conditions elsewhere, direct calls on Windows."""
    architecture, is_linux = target.triple.split("-")[0], "linux" in target.triple
    if "windows" in target.triple:
        return _DIRECT_ONLY
    if is_linux and architecture in _FUTEX_NUMBERS:
        waiting = _FUTEX.replace("$NUMBER", str(_FUTEX_NUMBERS[architecture]))
    else:
        waiting = _CONDITION
    # SIG_BLOCK and SIG_SETMASK by the system's <signal.h>.
    block, restore = (0, 2) if is_linux else (1, 3)
    signals = _START.replace("$BLOCK", str(block)).replace("$RESTORE", str(restore))
    return "\n".join((_STATE, _relax(architecture), waiting, _WORK, signals, _INTERFACE))


def _relax(architecture: str) -> str:
    """`@relax`: tells a core that it spins."""
    hint = {
        "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
        "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
    }
    declaration, call = hint.get(architecture, ("", ""))
    return f"{declaration}\ndefine internal void @relax() alwaysinline {{\n  {call}\n  ret void\n}}\n"


# Words that different threads write lie on cache lines of their own.
_STATE: Final = """
@ticket = internal global i64 0, align 128
@done = internal global i32 0, align 128
@generation = internal global i32 0, align 128
@sleepers = internal global i32 0, align 128
@busy = internal global i32 0, align 128
@stopping = internal global i32 0, align 128
@wanted = internal global i64 0
@started = internal global i64 0
@threads = internal global [256 x ptr] zeroinitializer
@phase = internal global ptr null, align 128
@buffers = internal global ptr null
@sizes = internal global ptr null
@scratch = internal global ptr null
@stride = internal global i64 0
@tickets = internal global i64 0
@chunk = internal global i64 0
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""

_FUTEX: Final = """
declare i64 @syscall(i64, ...)
define internal void @prepare_waiting() {
  ret void
}
define internal void @wait_while(i32 %seen) {
  %r = call i64 (i64, ...) @syscall(i64 $NUMBER, ptr @generation, i64 128, i32 %seen, ptr null, ptr null, i64 0)
  ret void
}
define internal void @advance(i32 %next) {
entry:
  store atomic i32 %next, ptr @generation seq_cst, align 4
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %out
wake:
  %r = call i64 (i64, ...) @syscall(i64 $NUMBER, ptr @generation, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  br label %out
out:
  ret void
}
"""

_CONDITION: Final = """
@mutex = internal global [128 x i8] zeroinitializer, align 16
@condition = internal global [128 x i8] zeroinitializer, align 16
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
define internal void @prepare_waiting() {
  %a = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr @condition, ptr null)
  ret void
}
define internal void @wait_while(i32 %seen) {
entry:
  %a = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %test
test:
  %now = load atomic i32, ptr @generation seq_cst, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %sleep, label %out
sleep:
  %b = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %test
out:
  %c = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}
define internal void @advance(i32 %next) {
entry:
  store atomic i32 %next, ptr @generation seq_cst, align 4
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %out
wake:
  %a = call i32 @pthread_mutex_lock(ptr @mutex)
  %b = call i32 @pthread_cond_broadcast(ptr @condition)
  %c = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %out
out:
  ret void
}
"""

_WORK: Final = """
define internal void @drain(i64 %worker) {
entry:
  br label %look
look:
  %word = load atomic i64, ptr @ticket acquire, align 8
  %next = and i64 %word, 1048575
  %above = lshr i64 %word, 20
  %chunks = and i64 %above, 1048575
  %left = icmp ult i64 %next, %chunks
  br i1 %left, label %claim, label %out
claim:
  %taken = add i64 %word, 1
  %exchange = cmpxchg ptr @ticket, i64 %word, i64 %taken acq_rel acquire, align 8
  %won = extractvalue {i64, i1} %exchange, 1
  br i1 %won, label %run, label %look
run:
  %phase = load ptr, ptr @phase
  %buffers = load ptr, ptr @buffers
  %sizes = load ptr, ptr @sizes
  %base = load ptr, ptr @scratch
  %stride = load i64, ptr @stride
  %tickets = load i64, ptr @tickets
  %chunk = load i64, ptr @chunk
  %offset = mul i64 %worker, %stride
  %scratch = getelementptr i8, ptr %base, i64 %offset
  %begin = mul i64 %next, %chunk
  %full = add i64 %begin, %chunk
  %end = call i64 @llvm.umin.i64(i64 %full, i64 %tickets)
  call void %phase(ptr %buffers, ptr %sizes, ptr %scratch, i64 %begin, i64 %end)
  %finished = atomicrmw add ptr @done, i32 1 release
  br label %look
out:
  ret void
}
define internal i64 @nanoseconds() {
  %time = alloca [2 x i64], align 8
  %r = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}
define internal i32 @next_generation(i32 %seen) {
entry:
  %begin = call i64 @nanoseconds()
  br label %spin
spin:
  %turn = phi i32 [ 0, %entry ], [ %more, %again ], [ 0, %clock ]
  %now = load atomic i32, ptr @generation acquire, align 4
  %changed = icmp ne i32 %now, %seen
  br i1 %changed, label %found, label %idle
idle:
  call void @relax()
  %more = add i32 %turn, 1
  %check = icmp eq i32 %more, 32
  br i1 %check, label %clock, label %again
again:
  br label %spin
clock:
  %later = call i64 @nanoseconds()
  %waited = sub i64 %later, %begin
  %long = icmp ugt i64 %waited, 50000
  br i1 %long, label %sleep, label %spin
found:
  ret i32 %now
sleep:
  %a = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %test
test:
  %current = load atomic i32, ptr @generation seq_cst, align 4
  %woken = icmp ne i32 %current, %seen
  br i1 %woken, label %awake, label %wait
wait:
  call void @wait_while(i32 %seen)
  br label %test
awake:
  %b = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  ret i32 %current
}
define internal ptr @worker(ptr %argument) {
entry:
  %index = ptrtoint ptr %argument to i64
  br label %loop
loop:
  %seen = phi i32 [ 0, %entry ], [ %now, %work ]
  %now = call i32 @next_generation(i32 %seen)
  %stop = load atomic i32, ptr @stopping acquire, align 4
  %ends = icmp ne i32 %stop, 0
  br i1 %ends, label %out, label %work
work:
  call void @drain(i64 %index)
  br label %loop
out:
  ret ptr null
}
"""

# Signals are blocked around pthread_create: threads inherit the mask, so Python's handlers run in its main thread only.
_START: Final = """
define internal void @start() {
entry:
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  call void @prepare_waiting()
  %a = call i32 @sigfillset(ptr %all)
  %b = call i32 @pthread_sigmask(i32 $BLOCK, ptr %all, ptr %old)
  %wanted = load i64, ptr @wanted
  br label %loop
loop:
  %count = phi i64 [ 0, %entry ], [ %index, %made ]
  %more = icmp ult i64 %count, %wanted
  br i1 %more, label %make, label %out
make:
  %index = add i64 %count, 1
  %argument = inttoptr i64 %index to ptr
  %at = getelementptr ptr, ptr @threads, i64 %index
  %failed = call i32 @pthread_create(ptr %at, ptr null, ptr @worker, ptr %argument)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %made, label %out
made:
  br label %loop
out:
  %running = phi i64 [ %count, %loop ], [ %count, %make ]
  store i64 %running, ptr @started
  store i64 %running, ptr @wanted
  %c = call i32 @pthread_sigmask(i32 $RESTORE, ptr %old, ptr null)
  ret void
}
"""

_INTERFACE: Final = """
define internal void @dispatch(i64 %tickets, i64 %chunk) {
entry:
  %rounded = add i64 %tickets, %chunk
  %last = sub i64 %rounded, 1
  %chunks = udiv i64 %last, %chunk
  store atomic i32 0, ptr @done monotonic, align 4
  %old = load atomic i32, ptr @generation monotonic, align 4
  %new = add i32 %old, 1
  %wide = zext i32 %new to i64
  %high = shl i64 %wide, 40
  %middle = shl i64 %chunks, 20
  %word = or i64 %high, %middle
  store atomic i64 %word, ptr @ticket seq_cst, align 8
  call void @advance(i32 %new)
  call void @drain(i64 0)
  %target = trunc i64 %chunks to i32
  br label %wait
wait:
  %turn = phi i32 [ 0, %entry ], [ %turns, %next ]
  %finished = load atomic i32, ptr @done acquire, align 4
  %all = icmp eq i32 %finished, %target
  br i1 %all, label %out, label %idle
idle:
  call void @relax()
  %turns = add i32 %turn, 1
  %masked = and i32 %turns, 511
  %long = icmp eq i32 %masked, 0
  br i1 %long, label %yield, label %next
yield:
  %r = call i32 @sched_yield()
  br label %next
next:
  br label %wait
out:
  ret void
}
define void @pool_run(ptr %phase, ptr %buffers, ptr %sizes, ptr %scratch, i64 %stride, i64 %tickets, i64 %chunk) {
entry:
  %least = udiv i64 %tickets, 1048575
  %least1 = add i64 %least, 1
  %wanted = load i64, ptr @wanted
  %threads = add i64 %wanted, 1
  %parts = shl i64 %threads, 3
  %share = udiv i64 %tickets, %parts
  %enough = call i64 @llvm.umax.i64(i64 %share, i64 %least1)
  %usable = call i64 @llvm.umax.i64(i64 %chunk, i64 %enough)
  %single = icmp ule i64 %tickets, %usable
  %alone = icmp eq i64 %wanted, 0
  %simple = or i1 %single, %alone
  br i1 %simple, label %direct, label %lock
lock:
  %exchange = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %locked = extractvalue {i32, i1} %exchange, 1
  br i1 %locked, label %ready, label %direct
ready:
  %started = load i64, ptr @started
  %stopped = icmp eq i64 %started, 0
  br i1 %stopped, label %begin, label %publish
begin:
  call void @start()
  br label %publish
publish:
  store ptr %phase, ptr @phase
  store ptr %buffers, ptr @buffers
  store ptr %sizes, ptr @sizes
  store ptr %scratch, ptr @scratch
  store i64 %stride, ptr @stride
  store i64 %tickets, ptr @tickets
  store i64 %usable, ptr @chunk
  call void @dispatch(i64 %tickets, i64 %usable)
  store atomic i32 0, ptr @busy release, align 4
  ret void
direct:
  %none = icmp eq i64 %tickets, 0
  br i1 %none, label %out, label %call
call:
  call void %phase(ptr %buffers, ptr %sizes, ptr %scratch, i64 0, i64 %tickets)
  br label %out
out:
  ret void
}
define internal void @lock() {
entry:
  br label %try
try:
  %exchange = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %locked = extractvalue {i32, i1} %exchange, 1
  br i1 %locked, label %out, label %again
again:
  %r = call i32 @sched_yield()
  br label %try
out:
  ret void
}
define internal void @join() {
entry:
  store atomic i32 1, ptr @stopping release, align 4
  store atomic i64 0, ptr @ticket seq_cst, align 8
  %old = load atomic i32, ptr @generation monotonic, align 4
  %new = add i32 %old, 1
  call void @advance(i32 %new)
  %started = load i64, ptr @started
  br label %loop
loop:
  %count = phi i64 [ 0, %entry ], [ %index, %wait ]
  %more = icmp ult i64 %count, %started
  br i1 %more, label %wait, label %out
wait:
  %index = add i64 %count, 1
  %at = getelementptr ptr, ptr @threads, i64 %index
  %thread = load ptr, ptr %at
  %r = call i32 @pthread_join(ptr %thread, ptr null)
  br label %loop
out:
  store i64 0, ptr @started
  store atomic i32 0, ptr @stopping release, align 4
  ret void
}
define void @pool_stop() {
  call void @lock()
  call void @join()
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
define void @pool_configure(i64 %workers) {
  call void @lock()
  call void @join()
  %count = call i64 @llvm.umin.i64(i64 %workers, i64 255)
  store i64 %count, ptr @wanted
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
define void @pool_reset() {
  store i64 0, ptr @started
  store atomic i32 0, ptr @sleepers seq_cst, align 4
  store atomic i32 0, ptr @stopping seq_cst, align 4
  store atomic i64 0, ptr @ticket seq_cst, align 8
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}
define i64 @pool_started() {
  %started = load i64, ptr @started
  ret i64 %started
}
"""

# Windows has no pthreads: every phase runs in the caller until a version for its threads is written.
_DIRECT_ONLY: Final = """
define void @pool_run(ptr %phase, ptr %buffers, ptr %sizes, ptr %scratch, i64 %stride, i64 %tickets, i64 %chunk) {
entry:
  %none = icmp eq i64 %tickets, 0
  br i1 %none, label %out, label %call
call:
  call void %phase(ptr %buffers, ptr %sizes, ptr %scratch, i64 0, i64 %tickets)
  br label %out
out:
  ret void
}
define void @pool_configure(i64 %workers) {
  ret void
}
define void @pool_stop() {
  ret void
}
define void @pool_reset() {
  ret void
}
define i64 @pool_started() {
  ret i64 0
}
"""
