"""A Python function as LLVM IR: a call of an executable on arrays of known shapes, with no step in Python.

    PyObject *fastcall(PyObject *self, PyObject *const *arguments, Py_ssize_t count)       METH_FASTCALL

`self` is a tuple whose first item is an ndarray with the bytes of a `%Call`, which says what the arguments have to be,
which results to make, and whose memory to run in.  The function returns one box (an object that holds an ndarray in its
only slot) or a tuple of them.  It returns NotImplemented, and has changed nothing, where an argument is anything but
what was said, where the call's memory is in use by another thread, and where a check of the program failed: the caller
then takes the ordinary way, which copes or says why it cannot.

Layouts are CPython's and NumPy's C interfaces: `PyArrayObject_fields` is the same in NumPy 1.7 to 2.x, and the loader
looks at a sample before it trusts any of this.  Functions and types are reached through `@python`, which the loader
fills in the order of `PYTHON_ENTRIES`; so the object file depends on no address and can be cached.
"""

from __future__ import annotations

from typing import Final

from snell.targets import ALIASING, PLACE_STEP

__all__ = ["FASTCALL", "MOST_ARRAYS", "PYTHON_ENTRIES", "PYTHON_TABLE", "fastcall_ir"]

FASTCALL: Final = "fastcall"
PYTHON_TABLE: Final = "python"
PYTHON_ENTRIES: Final = (
    "NotImplemented", "PyArray_Type", "uint8", "Py_IncRef", "Py_DecRef", "PyArray_NewFromDescr",
    "PyArray_SetBaseObject", "PyType_GenericAlloc", "PyEval_SaveThread", "PyEval_RestoreThread", "PyTuple_New",
    "PyTuple_SetItem",
)  # fmt: skip
MOST_ARRAYS: Final = 64
"""Arguments, and results, that a call may have."""


def fastcall_ir(tuple_items: int, flags: int) -> str:
    """The module's text; `tuple_items` is where a tuple has its items, `flags` what an argument must have set."""
    parts = (_TYPES, *map(_loader, range(len(PYTHON_ENTRIES))), _READ, _MAKE, _RUN, _ENTRY)
    text = "\n".join(parts).replace("$MOST", str(MOST_ARRAYS)).replace("$FLAGS", str(flags))
    text = text.replace("$LAST", str(ALIASING - 1)).replace("$STEP", str(PLACE_STEP))
    return text.replace("$ITEMS", str(tuple_items))


def _loader(number: int) -> str:
    """`@get.NAME`: what the table has under a name."""
    return f"""define internal ptr @get.{PYTHON_ENTRIES[number]}() alwaysinline {{
  %at = getelementptr ptr, ptr @{PYTHON_TABLE}, i64 {number}
  %value = load ptr, ptr %at
  ret ptr %value
}}"""


# Each field of %Call, %Input and %Output is a word of 8 bytes.
#   %Call    busy, releases the GIL, threads that its memory is for, threads of the pool, function, its operand,
#            table of pointers, box type, number of inputs, %Input*, number of outputs, %Output*
#   %Input   dtype, rank, shape, place in the table of pointers
#   %Output  dtype, rank, shape, place in the table of pointers, bytes with room to align, and of large ones where in a
#            page the next begins (`targets.ALIASING`), 0 of others
#   %Array   reference count, type, data, rank, shape, strides, base, dtype, flags
_TYPES: Final = """
%Call = type { i64, i64, i64, ptr, ptr, ptr, ptr, ptr, i64, ptr, i64, ptr }
%Input = type { ptr, i64, ptr, i64 }
%Output = type { ptr, i64, ptr, i64, i64, i64 }
%Array = type { i64, ptr, ptr, i32, ptr, ptr, ptr, ptr, i32 }
%Box = type { i64, ptr, ptr }
@python = global [12 x ptr] zeroinitializer
"""

# The ndarray behind an argument, null where it is not what the call was made for.
_READ: Final = """
define internal ptr @read(ptr %object, ptr %box, ptr %input) {
entry:
  %wanted = call ptr @get.PyArray_Type()
  %type.at = getelementptr %Box, ptr %object, i32 0, i32 1
  %type = load ptr, ptr %type.at
  %plain = icmp eq ptr %type, %wanted
  br i1 %plain, label %array, label %other
other:
  %boxed = icmp eq ptr %type, %box
  br i1 %boxed, label %open, label %no
open:
  %inside.at = getelementptr %Box, ptr %object, i32 0, i32 2
  %inside = load ptr, ptr %inside.at
  %unset = icmp eq ptr %inside, null
  br i1 %unset, label %no, label %held
held:
  %held.at = getelementptr %Box, ptr %inside, i32 0, i32 1
  %held.type = load ptr, ptr %held.at
  %good = icmp eq ptr %held.type, %wanted
  br i1 %good, label %array, label %no
array:
  %a = phi ptr [ %object, %entry ], [ %inside, %held ]
  %dtype.at = getelementptr %Array, ptr %a, i32 0, i32 7
  %dtype = load ptr, ptr %dtype.at
  %dtype.wanted = load ptr, ptr %input
  %same = icmp eq ptr %dtype, %dtype.wanted
  %flags.at = getelementptr %Array, ptr %a, i32 0, i32 8
  %flags = load i32, ptr %flags.at
  %set = and i32 %flags, $FLAGS
  %usable = icmp eq i32 %set, $FLAGS
  %rank.at = getelementptr %Array, ptr %a, i32 0, i32 3
  %rank = load i32, ptr %rank.at
  %wide = sext i32 %rank to i64
  %rank.wanted.at = getelementptr %Input, ptr %input, i32 0, i32 1
  %rank.wanted = load i64, ptr %rank.wanted.at
  %ranks = icmp eq i64 %wide, %rank.wanted
  %both = and i1 %same, %usable
  %all = and i1 %both, %ranks
  br i1 %all, label %sizes, label %no
sizes:
  %shape.at = getelementptr %Array, ptr %a, i32 0, i32 4
  %shape = load ptr, ptr %shape.at
  %shape.wanted.at = getelementptr %Input, ptr %input, i32 0, i32 2
  %shape.wanted = load ptr, ptr %shape.wanted.at
  br label %axis
axis:
  %k = phi i64 [ 0, %sizes ], [ %next, %compare ]
  %more = icmp ult i64 %k, %wide
  br i1 %more, label %compare, label %yes
compare:
  %next = add i64 %k, 1
  %size.at = getelementptr i64, ptr %shape, i64 %k
  %size = load i64, ptr %size.at
  %size.wanted.at = getelementptr i64, ptr %shape.wanted, i64 %k
  %size.wanted = load i64, ptr %size.wanted.at
  %equal = icmp eq i64 %size, %size.wanted
  br i1 %equal, label %axis, label %no
yes:
  ret ptr %a
no:
  ret ptr null
}
"""

# A new result in its box, its address in the table of pointers; null where Python has no memory.  Elements begin on a
# boundary of 64 bytes within an array of bytes that is the result's base; 1281 is NPY_ARRAY_CARRAY.
_MAKE: Final = """
define internal ptr @make(ptr %box, ptr %output, ptr %pointers) {
entry:
  %new = call ptr @get.PyArray_NewFromDescr()
  %base = call ptr @get.PyArray_SetBaseObject()
  %alloc = call ptr @get.PyType_GenericAlloc()
  %ndarray = call ptr @get.PyArray_Type()
  %uint8 = call ptr @get.uint8()
  %retain = call ptr @get.Py_IncRef()
  %bytes = getelementptr %Output, ptr %output, i32 0, i32 4
  call void %retain(ptr %uint8)
  %memory = call ptr %new(ptr %ndarray, ptr %uint8, i32 1, ptr %bytes, ptr null, ptr null, i32 0, ptr null)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %failed, label %view
view:
  %data.at = getelementptr %Array, ptr %memory, i32 0, i32 2
  %data = load i64, ptr %data.at
  %turn.at = getelementptr %Output, ptr %output, i32 0, i32 5
  %turn = load i64, ptr %turn.at
  %small = icmp eq i64 %turn, 0
  %mask = select i1 %small, i64 63, i64 $LAST
  %apart = sub i64 %turn, %data
  %skip = and i64 %apart, %mask
  %aligned = add i64 %data, %skip
  %start = inttoptr i64 %aligned to ptr
  %after = add i64 %turn, $STEP
  %whole = icmp ugt i64 %after, $LAST
  %first = select i1 %whole, i64 $STEP, i64 %after
  %then = select i1 %small, i64 0, i64 %first
  store i64 %then, ptr %turn.at
  %dtype = load ptr, ptr %output
  %rank.at = getelementptr %Output, ptr %output, i32 0, i32 1
  %rank = load i64, ptr %rank.at
  %axes = trunc i64 %rank to i32
  %shape.at = getelementptr %Output, ptr %output, i32 0, i32 2
  %shape = load ptr, ptr %shape.at
  call void %retain(ptr %dtype)
  %array = call ptr %new(ptr %ndarray, ptr %dtype, i32 %axes, ptr %shape, ptr null, ptr %start, i32 1281, ptr null)
  %missing = icmp eq ptr %array, null
  br i1 %missing, label %drop.memory, label %owned
owned:
  %error = call i32 %base(ptr %array, ptr %memory)
  %wrong = icmp ne i32 %error, 0
  br i1 %wrong, label %drop.array, label %boxed
boxed:
  %result = call ptr %alloc(ptr %box, i64 0)
  %unboxed = icmp eq ptr %result, null
  br i1 %unboxed, label %drop.array, label %done
done:
  %value.at = getelementptr %Box, ptr %result, i32 0, i32 2
  store ptr %array, ptr %value.at
  %place.at = getelementptr %Output, ptr %output, i32 0, i32 3
  %place = load i64, ptr %place.at
  %pointer = getelementptr ptr, ptr %pointers, i64 %place
  store ptr %start, ptr %pointer
  ret ptr %result
drop.memory:
  br label %drop
drop.array:
  br label %drop
drop:
  %rest = phi ptr [ %memory, %drop.memory ], [ %array, %drop.array ]
  %release = call ptr @get.Py_DecRef()
  call void %release(ptr %rest)
  br label %failed
failed:
  ret ptr null
}
define internal void @drop(ptr %objects, i64 %count) {
entry:
  %release = call ptr @get.Py_DecRef()
  br label %look
look:
  %k = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %one, label %out
one:
  %next = add i64 %k, 1
  %at = getelementptr ptr, ptr %objects, i64 %k
  %object = load ptr, ptr %at
  call void %release(ptr %object)
  br label %look
out:
  ret void
}
"""

# Runs the program on what the table of pointers says, without the GIL where it may take long.
_RUN: Final = """
define internal i32 @run(ptr %call) {
entry:
  %function.at = getelementptr %Call, ptr %call, i32 0, i32 4
  %function = load ptr, ptr %function.at
  %operand.at = getelementptr %Call, ptr %call, i32 0, i32 5
  %operand = load ptr, ptr %operand.at
  %releases.at = getelementptr %Call, ptr %call, i32 0, i32 1
  %releases = load i64, ptr %releases.at
  %long = icmp ne i64 %releases, 0
  br i1 %long, label %free, label %held
free:
  %save = call ptr @get.PyEval_SaveThread()
  %restore = call ptr @get.PyEval_RestoreThread()
  %state = call ptr %save()
  %a = call i32 %function(ptr %operand)
  call void %restore(ptr %state)
  ret i32 %a
held:
  %b = call i32 %function(ptr %operand)
  ret i32 %b
}
define internal ptr @result(ptr %boxes, i64 %count) {
entry:
  %one = icmp eq i64 %count, 1
  br i1 %one, label %single, label %several
single:
  %box = load ptr, ptr %boxes
  ret ptr %box
several:
  %new = call ptr @get.PyTuple_New()
  %set = call ptr @get.PyTuple_SetItem()
  %tuple = call ptr %new(i64 %count)
  %none = icmp eq ptr %tuple, null
  br i1 %none, label %failed, label %look
look:
  %k = phi i64 [ 0, %several ], [ %next, %item ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %item, label %out
item:
  %next = add i64 %k, 1
  %at = getelementptr ptr, ptr %boxes, i64 %k
  %value = load ptr, ptr %at
  %e = call i32 %set(ptr %tuple, i64 %k, ptr %value)
  br label %look
out:
  ret ptr %tuple
failed:
  call void @drop(ptr %boxes, i64 %count)
  ret ptr null
}
"""

_ENTRY: Final = """
define ptr @fastcall(ptr %self, ptr %arguments, i64 %count) {
entry:
  %arrays = alloca [$MOST x ptr], align 8
  %boxes = alloca [$MOST x ptr], align 8
  %item = getelementptr i8, ptr %self, i64 $ITEMS
  %record = load ptr, ptr %item
  %record.data = getelementptr %Array, ptr %record, i32 0, i32 2
  %call = load ptr, ptr %record.data
  %threads.at = getelementptr %Call, ptr %call, i32 0, i32 2
  %threads = load i64, ptr %threads.at
  %pool.at = getelementptr %Call, ptr %call, i32 0, i32 3
  %pool = load ptr, ptr %pool.at
  %working = load i64, ptr %pool
  %roomy = icmp sle i64 %working, %threads
  %pointers.at = getelementptr %Call, ptr %call, i32 0, i32 6
  %pointers = load ptr, ptr %pointers.at
  %box.at = getelementptr %Call, ptr %call, i32 0, i32 7
  %box = load ptr, ptr %box.at
  %wanted.at = getelementptr %Call, ptr %call, i32 0, i32 8
  %wanted = load i64, ptr %wanted.at
  %inputs.at = getelementptr %Call, ptr %call, i32 0, i32 9
  %inputs = load ptr, ptr %inputs.at
  %results.at = getelementptr %Call, ptr %call, i32 0, i32 10
  %results = load i64, ptr %results.at
  %outputs.at = getelementptr %Call, ptr %call, i32 0, i32 11
  %outputs = load ptr, ptr %outputs.at
  %as.many = icmp eq i64 %count, %wanted
  %fits = and i1 %as.many, %roomy
  br i1 %fits, label %look, label %decline
look:
  %i = phi i64 [ 0, %entry ], [ %i.next, %found ]
  %i.more = icmp ult i64 %i, %count
  br i1 %i.more, label %check, label %lock
check:
  %argument.at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument.at
  %input = getelementptr %Input, ptr %inputs, i64 %i
  %array = call ptr @read(ptr %argument, ptr %box, ptr %input)
  %other = icmp eq ptr %array, null
  br i1 %other, label %decline, label %found
found:
  %i.next = add i64 %i, 1
  %array.at = getelementptr ptr, ptr %arrays, i64 %i
  store ptr %array, ptr %array.at
  br label %look
lock:
  %retain = call ptr @get.Py_IncRef()
  %exchange = cmpxchg ptr %call, i64 0, i64 1 acquire monotonic, align 8
  %locked = extractvalue {i64, i1} %exchange, 1
  br i1 %locked, label %fill, label %decline
fill:
  %j = phi i64 [ 0, %lock ], [ %j.next, %put ]
  %j.more = icmp ult i64 %j, %count
  br i1 %j.more, label %put, label %make
put:
  %j.next = add i64 %j, 1
  %used.at = getelementptr ptr, ptr %arrays, i64 %j
  %used = load ptr, ptr %used.at
  %data.at = getelementptr %Array, ptr %used, i32 0, i32 2
  %data = load ptr, ptr %data.at
  %place.at = getelementptr %Input, ptr %inputs, i64 %j, i32 3
  %place = load i64, ptr %place.at
  %pointer = getelementptr ptr, ptr %pointers, i64 %place
  store ptr %data, ptr %pointer
  call void %retain(ptr %used)
  br label %fill
make:
  %k = phi i64 [ 0, %fill ], [ %k.next, %made ]
  %k.more = icmp ult i64 %k, %results
  br i1 %k.more, label %new, label %start
new:
  %output = getelementptr %Output, ptr %outputs, i64 %k
  %made.box = call ptr @make(ptr %box, ptr %output, ptr %pointers)
  %no.memory = icmp eq ptr %made.box, null
  br i1 %no.memory, label %failed, label %made
made:
  %k.next = add i64 %k, 1
  %made.at = getelementptr ptr, ptr %boxes, i64 %k
  store ptr %made.box, ptr %made.at
  br label %make
start:
  %status = call i32 @run(ptr %call)
  store atomic i64 0, ptr %call release, align 8
  call void @drop(ptr %arrays, i64 %count)
  %passed = icmp eq i32 %status, 0
  br i1 %passed, label %finish, label %refused
finish:
  %value = call ptr @result(ptr %boxes, i64 %results)
  ret ptr %value
refused:
  call void @drop(ptr %boxes, i64 %results)
  br label %decline
decline:
  %answer = call ptr @get.NotImplemented()
  call void @retain.answer(ptr %answer)
  ret ptr %answer
failed:
  store atomic i64 0, ptr %call release, align 8
  call void @drop(ptr %boxes, i64 %k)
  call void @drop(ptr %arrays, i64 %count)
  ret ptr null
}
define internal void @retain.answer(ptr %answer) {
  %retain = call ptr @get.Py_IncRef()
  call void %retain(ptr %answer)
  ret void
}
"""
